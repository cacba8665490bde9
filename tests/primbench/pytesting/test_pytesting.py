"""The fixture of pytest, in runs of pytest of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = """
import pytest
from primbench import Method

QUICK = Method(min_time_s=0.001, max_time_s=0.01)

@pytest.mark.parametrize("n", [10, 100])
def test_sum(primbench, n):
    measured = primbench(lambda: sum(range(n)), method=QUICK)
    assert measured.wall_s.median_s > 0

def test_two(primbench):
    primbench(lambda: None, method=QUICK)
    primbench(len, setup=lambda: [1, 2], method=QUICK)

def test_without():
    pass
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "test_mine.py").write_text(TESTS)

    def pytest_there(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_loading(), *words]
        own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # of the run around it
        return subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=100, check=False)

    return pytest_there


def _loading() -> list[str]:
    """Where the entry point of an installed package has it loaded by itself, once is enough."""
    from importlib.metadata import entry_points

    known = {each.value for each in entry_points(group="pytest11")}
    return [] if "primbench.pytesting" in known else ["-p", "primbench.pytesting"]


def test_times_are_in_a_table_at_the_end_and_a_run_is_saved_and_another_one_set_against_it(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = run("--primbench-save", "mine")
    assert 0 == done.returncode, done.stdout
    for name in ("test_sum[10]", "test_sum[100]", "test_two", "test_two #2"):
        assert f"test_mine.py::{name}" in done.stdout
    assert "test_without" not in done.stdout
    (path,) = (tmp_path / ".primbench/baselines/mine").glob("*.jsonl")
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert ["header", "worker", *["record"] * 4] == kinds
    done = run("--primbench-against", "mine")
    assert 0 == done.returncode, done.stdout
    assert "this run against mine" in done.stdout
    done = run("--primbench-against", "mine", "--primbench-fail-above", "5%")
    assert 1 == done.returncode, "one run a side cannot tell, and what is not told does not pass"
    assert "not told, and so not passed by --primbench-fail-above: test_mine.py::test_sum[10]" in done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--primbench-fail-above", "5%"), "--primbench-fail-above: of what, is said by --primbench-against"),
        (("--primbench-against", "nosuch"), "nosuch: no such file, nor a baseline of that name"),
        (("--primbench-save", "../a"), "is no name for a baseline"),
        (("--primbench-against", "test_mine.py", "--primbench-fail-above", "much"), "much"),
    ],
)
def test_what_cannot_be_is_refused_before_any_test(
    run: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...], reason: str
) -> None:
    done = run(*words)
    assert pytest.ExitCode.USAGE_ERROR == done.returncode, done.stdout
    assert reason in done.stderr
    assert "test_sum" not in done.stdout


def test_a_run_without_the_fixture_imports_nothing_of_it(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run("-k", "without")
    assert 0 == done.returncode, done.stdout
    assert "primbench ==" not in done.stdout
