"""Forty faults, the same ones every time, of as many kinds as fifty others. More by hand: see driver.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_forty_faults_cost_no_finished_case_and_leave_nothing_behind() -> None:
    command = [sys.executable, "-m", "tests.faults.driver", "--count", "40", "--seed", "120373"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
