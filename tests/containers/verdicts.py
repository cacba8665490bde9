"""What a comparison says of a case that a place was made to slow down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from primbench.compare.comparison import CaseComparison
from primbench.compare.pairs import compare
from primbench.results import file as results_file

PAIRS, MORE_PAIRS = 3, 10


def primbench(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "primbench", *map(str, arguments)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)


def settled(path: Path, arms: Iterable[str], *words: Any, fail_on: str = "slower") -> subprocess.CompletedProcess[str]:
    """A study of two arms, by as few pairs as tell a difference far from any doubt; more where these did not.

    What else runs on this machine can hold up a whole process of one arm, and the interval of three pairs is wide then.
    """
    named = [word for arm in arms for word in ("--arm", arm)]  # again where it goes on: a file's word is not enough
    done = primbench("study", *words, *named, "--pairs", PAIRS, "--fail-on", fail_on, "-o", path)
    if not path.exists():
        return done
    (arm,) = compare(results_file.read(path)).arms
    if any(case.verdict == "inconclusive" for case in arm.cases):
        done = primbench("study", "--resume", path, *named, "--pairs", MORE_PAIRS, "--fail-on", fail_on)
    return done


def first_cause(case: CaseComparison) -> str:
    """The case must be slower, and have a cause. Skips where the machine is too busy for any verdict."""
    if case.is_untellable:
        pytest.skip("something else takes the CPUs: nothing is told, and so nothing explained")
    assert "slower" == case.verdict, case
    assert case.explanation is not None, case
    return case.explanation.causes[0]
