"""Whoever runs the tests starts no container and no virtual machine unasked, nor waits minutes; CI asks by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")


def test_containers_and_machines_are_left_out_with_a_word_at_the_start() -> None:
    others = [f"--ignore=tests/{name}" for name in ("primbench", "kernels", "suites", "gpu")]
    command = [sys.executable, *COLLECT, *others]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == found.returncode, found.stdout + found.stderr
    first, *tests = found.stdout.splitlines()
    assert "left to CI" in first
    folders = ["tests/containers", "tests/faults", "tests/fuzz", "tests/shipped", "tests/vm"]
    assert first.endswith(f": pytest {' '.join(folders)}")
    assert any(each.startswith("tests/test_readme.py") for each in tests)
    assert not any(each.startswith(tuple(folders)) for each in tests)
