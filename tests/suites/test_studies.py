"""What suites say of studies, the shipped ones and those of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

import primbench.suites as suites
from primbench.errors import FileError
from primbench.experiments.study import check_arms
from primbench.spec.arm import arm_of, parse_arm
from primbench.suites.parse import MOST_PAIRS

GEMM = "gemm = [{ m = 4, n = 4, k = 4 }]\n"


@pytest.mark.parametrize("name", suites.studies())
def test_shipped_studies_name_arms_that_can_be_compared(name: str) -> None:
    said = suites.study(name)
    check_arms([parse_arm(written) if isinstance(written, str) else arm_of(written) for written in said.arms])
    assert said.title
    assert suites.read(name)


@pytest.mark.parametrize("name", suites.studies())
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shipped_studies_have_cases_of_every_primitive_on_either_device(name: str, device: str) -> None:
    entries = suites.read(name)
    cases = [entry for entry in entries if entry.labels.get("device") in (None, device)]
    assert {"gemm", "memcpy", "launch"} <= {entry.problem.primitive for entry in cases}


def test_studies_are_no_suites_to_list() -> None:
    assert {"containers", "numa"} == set(suites.studies())
    assert not set(suites.studies()) & set(suites.names())


def test_a_suite_without_arms_is_no_study() -> None:
    said = suites.study("quick")
    assert ([], None, None) == (said.arms, said.pairs, said.seed)


def test_arms_are_strings_or_tables(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'pairs = 3\nseed = 0\n{GEMM}[[arm]]\nruntime = "podman"\nenv = {{ A = "1" }}\n[[arm]]\ncpus = 2\n')
    said = suites.study(path)
    assert (3, 0, [{"runtime": "podman", "env": {"A": "1"}}, {"cpus": 2}]) == (said.pairs, said.seed, said.arms)


def test_as_many_pairs_as_the_command_line_takes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"pairs = {MOST_PAIRS}\n{GEMM}")
    assert MOST_PAIRS == suites.study(path).pairs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pairs = 0", f"pairs is not a whole number from 1 to {MOST_PAIRS}$"),
        (f"pairs = {MOST_PAIRS + 1}", f"pairs is not a whole number from 1 to {MOST_PAIRS}$"),
        ("pairs = true", "pairs is not a whole number"),
        ("seed = -1", "seed is not a whole number of at least 0"),
        ('seed = "x"', "seed is not"),
        ('arm = "host"', r"arm is not a list of strings and tables: write \[\[arm\]\]"),
        ("arm = [1]", "arm is not a list of strings and tables"),
        ("[arm]\ncpus = 1", "arm is not a list of strings and tables"),
    ],
)
def test_what_is_no_study_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{GEMM}{text}\n")
    with pytest.raises(FileError, match=reason):
        suites.study(path)
