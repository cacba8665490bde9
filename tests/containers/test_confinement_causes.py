"""What confinement does to a study in real containers: the verdict, and its first cause, by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primbench.compare.comparison import CaseComparison
from primbench.compare.pairs import compare
from primbench.results import file as results_file

from .traces import in_words
from .verdicts import first_cause

pytestmark = pytest.mark.quiet

QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "5ms", "--max-time", "30ms", "--fail-on", "never")
SUITE = 'launch = [{ call = ["getppid", "ctypes"] }]\n'
RULES = 1000  # that the kernel tries at each call of getppid, where it would know one without arguments to be allowed


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test's own files are: in its tmp_path is only what primbench left."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "suite.toml").write_text(SUITE)
    return folder


def profile(folder: Path, *rules: dict[str, Any]) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}))
    return path


def study(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    words = ["study", folder / "suite.toml", *QUICK, "-o", folder / "results.jsonl", *arguments]
    command = [sys.executable, "-P", "-m", "primbench", *map(str, words)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)


def compared(folder: Path) -> dict[Any, CaseComparison]:
    """Call -> what became of it in the only arm beside the baseline."""
    (arm,) = compare(results_file.read(folder / "results.jsonl")).arms
    return {case.case.parameters["call"]: case for case in arm.cases}


@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_a_filter_on_what_is_timed_makes_it_slower_and_is_named(
    runtime: str, folder: Path, traces: Callable[[], list[str]], ahead_of_others: None
) -> None:
    path = profile(folder, *(_on_getppid(number) for number in range(RULES)))
    done = study(folder, "--pairs", 3, "--arm", "host", "--arm", in_words(runtime, f"seccomp={path}", "name=filtered"))
    assert (0, "") == (done.returncode, done.stderr)
    found = compared(folder)
    told = (
        f"in filtered a seccomp filter looks at getppid (seccomp={path}, /proc/self/status: filter, 1 of them): a call "
    )
    assert first_cause(found["getppid"]).startswith(told), done.stdout


def _on_getppid(number: int) -> dict[str, Any]:
    """A rule that asks for something else of its first argument, of which it has none."""
    other = {
        "index": 0,
        "value": 0xFFFF_FFF0,
        "valueTwo": 0x1010 * (number + 1) & 0xFFFF_FFF0,
        "op": "SCMP_CMP_MASKED_EQ",
    }
    return {"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "args": [other]}
