"""`primbench list`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import primbench.suites as suites
from primbench import backends
from primbench.registry import backends_of, kernels_of, networks, primitives

if TYPE_CHECKING:
    from click.testing import Result

SECTIONS = {
    "primitives": list(primitives()),
    "models": networks.names(),
    "backends": backends.names(),
    "suites": suites.names(),
}


def rows(text: str) -> dict[str, str]:
    """First word of each row -> the rest of it, continued lines joined."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("   "):
            found[list(found)[-1]] += " " + line.strip()
        elif line.startswith("  "):
            name, _, rest = line.strip().partition(" ")
            found[name] = rest.strip()
    return found


@pytest.fixture(scope="module")
def listed(invoke: Callable[..., Result]) -> Callable[[str], Result]:
    return functools.cache(lambda section: invoke("list", section))


@pytest.mark.parametrize("section", SECTIONS)
def test_one_section(section: str, listed: Callable[[str], Result]) -> None:
    result = listed(section)
    assert 0 == result.exit_code
    assert result.stdout.startswith(f"{section.capitalize()}:\n")
    assert SECTIONS[section] == list(rows(result.stdout))


def test_without_a_word_all_sections(listed: Callable[[str], Result], invoke: Callable[..., Result]) -> None:
    whole = invoke("list").stdout
    assert whole.startswith("".join(listed(section).stdout for section in list(SECTIONS)[:-1]) + "Suites:\n")


def test_without_a_word_suites_have_their_titles_alone(invoke: Callable[..., Result]) -> None:
    shown = rows(invoke("list").stdout.partition("Suites:\n")[2])
    assert {name: suites.describe(name).title for name in suites.names()} == shown


def test_primitives_say_which_backends_have_a_kernel(listed: Callable[[str], Result]) -> None:
    assert rows(listed("primitives").stdout)["embedding"].endswith(f"On {', '.join(backends_of('embedding'))}.")
    named = ", ".join(kernels_of("gemm", "torch")[1:])
    assert rows(listed("primitives").stdout)["gemm"].endswith(f"torch (also {named}).")
    assert "triton" in named


def test_backend_that_is_there_shows_its_version(listed: Callable[[str], Result]) -> None:
    import numpy as np

    assert f"{np.__version__}, for cpu" == rows(listed("backends").stdout)["numpy"]


def test_backend_that_is_missing_says_what_to_install(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # Python's own word for a module that cannot be imported
    shown = rows(invoke("list", "backends").stdout)["torch"]
    assert shown.startswith("not available: module 'torch' is not installed: pip install ")


def test_a_folder_that_is_called_as_a_framework_is_none(
    tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cupy").mkdir()
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert rows(invoke("list", "backends").stdout)["cupy"].startswith("not available: module 'cupy' is not installed")


def test_suites_count_their_entries(listed: Callable[[str], Result]) -> None:
    count = sum(suites.describe("deepbench").counts["gemm"].values())
    assert len(suites.load("deepbench", only=["gemm"])) == count
    assert "160 training" in rows(listed("suites").stdout)["deepbench"]


def test_unknown_section_is_refused(refusal: Callable[..., str]) -> None:
    assert "'kernels' is not one of 'primitives', 'models', 'backends', 'suites'" in refusal("list", "kernels")
    assert "files is a primitive, of which `primbench files --help` tells" in refusal("list", "files")


def test_a_suite_of_one_set_does_not_repeat_its_name(listed: Callable[[str], Result]) -> None:
    assert rows(listed("suites").stdout)["small"].startswith("The small sizes of every primitive: gemm 6; ")


def test_lines_are_no_wider_than_the_terminal(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert 60 >= max(map(len, invoke("list", "suites").stdout.splitlines()))
