"""What suites say of studies, the shipped ones and those of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

import primbench.suites as suites
from primbench.cli.study import neighbour_in_words
from primbench.compare.claims import agreeing
from primbench.errors import FileError
from primbench.experiments.study import check_arms
from primbench.spec.arm import arm_of, parse_arm
from primbench.spec.study import with_neighbour
from primbench.suites.parse import MOST_PAIRS

GEMM = "gemm = [{ m = 4, n = 4, k = 4 }]\n"


@pytest.mark.parametrize("name", suites.studies())
def test_shipped_studies_name_arms_that_can_be_compared(name: str) -> None:
    said = suites.study(name)
    arms = [parse_arm(written) if isinstance(written, str) else arm_of(written) for written in said.arms]
    for words in said.beside.values():
        check_arms(with_neighbour(arms, neighbour_in_words(words)))
    if not said.beside:
        check_arms(arms)
    assert said.title
    assert suites.read(name)


@pytest.mark.parametrize("name", ["containers", "numa", "shared"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shipped_studies_have_cases_of_every_primitive_on_either_device(name: str, device: str) -> None:
    entries = suites.read(name)
    cases = [entry for entry in entries if entry.labels.get("device") in (None, device)]
    assert {"gemm", "memcpy", "launch"} <= {entry.problem.primitive for entry in cases}


def test_studies_are_no_suites_to_list() -> None:
    own, repeated = (
        {"containers", "network", "numa", "shared"},
        {"fathom", "mnist_imdb", "snn_lnn", "tf_cnn", "tiny_imagenet"},
    )
    assert own | repeated == set(suites.studies())
    assert not set(suites.studies()) & set(suites.names())


@pytest.mark.parametrize("name", suites.studies())
def test_what_was_published_is_of_cases_that_are_there(name: str) -> None:
    found = suites.study(name).published
    if found is not None:
        ids = {entry.labels.get("id") for entry in suites.read(name)}
        assert {claim.id for claim in found.claims} <= ids
        assert all(agreeing(claim, margin=0.01) for claim in found.claims), "a claim that no time can test"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["fathom", "mnist_imdb", "snn_lnn", "tf_cnn", "tiny_imagenet"])
def test_published_studies_have_cases_of_whole_models_on_either_device(name: str, device: str) -> None:
    assert suites.study(name).published is not None
    cases = [entry for entry in suites.read(name) if entry.labels.get("device") in (None, device)]
    assert {"model", "program"} & {entry.problem.primitive for entry in cases}


def test_a_suite_without_arms_is_no_study() -> None:
    said = suites.study("quick")
    assert ([], None, None, {}) == (said.arms, said.pairs, said.seed, said.beside)


def test_arms_are_strings_or_tables(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'pairs = 3\nseed = 0\n{GEMM}[[arm]]\nruntime = "podman"\nenv = {{ A = "1" }}\n[[arm]]\ncpus = 2\n')
    said = suites.study(path)
    assert (3, 0, [{"runtime": "podman", "env": {"A": "1"}}, {"cpus": 2}]) == (said.pairs, said.seed, said.arms)


def test_a_neighbour_is_for_both_kinds_of_device_or_one_for_each(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'beside = "gemm -m 4 -n 4 -k 4"\n{GEMM}')
    assert dict.fromkeys(["cpu", "cuda"], "gemm -m 4 -n 4 -k 4") == suites.study(path).beside
    path.write_text(f'beside = {{ cuda = "model alexnet" }}\n{GEMM}')
    assert {"cuda": "model alexnet"} == suites.study(path).beside


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
        ("beside = 1", 'beside is a primitive and its options in a string, as "model alexnet", or a table of such'),
        ('beside = { tpu = "gemm" }', "beside is a primitive and its options"),
        (
            '[published]\nsource = "x"\nclaims = [{ says = "a", ratio = inf }]',
            "published: ratio = inf: a finite number",
        ),
        (
            '[published]\nsource = "x"\nclaims = [{ says = "a", ratio = 1.0, slower = true }]',
            "published: first and second, ratio, slower: one of them",
        ),
        (
            '[published]\nsource = "x"\nclaims = [{ says = "a", first = { place = "b", mean = 1.0, runs = 1 } }]',
            "published: first and second: both of them or neither",
        ),
        (
            '[published]\nsource = "x"\nclaims = [{ says = "a", first = { place = "b", mean = 0, runs = 1 } }]',
            "published: mean = 0.0: a finite number of seconds above 0",
        ),
        ("published = 1", "published: Expected `object`, got `int`"),
        ('[published]\nsource = "x"\nclaims = [{ id = "a" }]', r"published: .* missing required field `says` .*claims"),
        ('[published]\nsource = "x"\nclaims = [{ says = "a", ration = 1 }]', "published: .* unknown field `ration`"),
    ],
)
def test_what_is_no_study_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{GEMM}{text}\n")
    with pytest.raises(FileError, match=reason):
        suites.study(path)
