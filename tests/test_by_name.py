"""Whoever runs the tests starts no container and no virtual machine unasked, nor waits minutes; CI asks by name.

What CI skips is what it cannot run, and no test that lacks what CI installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")


def test_containers_and_machines_are_left_out_with_a_word_at_the_start() -> None:
    others = [f"--ignore=tests/{name}" for name in ("primbench", "kernels", "suites", "gpu")]
    command = [sys.executable, *COLLECT, *others]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == found.returncode, found.stdout + found.stderr
    first, *tests = found.stdout.splitlines()
    assert "left to CI" in first
    folders = ["tests/containers", "tests/faults", "tests/fuzz", "tests/shipped", "tests/slurm", "tests/vm"]
    assert first.endswith(f": pytest {' '.join(folders)}")
    assert any(each.startswith("tests/test_readme.py") for each in tests)
    assert not any(each.startswith(tuple(folders)) for each in tests)


VERDICTS = "tests/primbench/cli/test_neighbour.py"


@pytest.mark.parametrize(
    ("asked", "is_left_out"),
    [((VERDICTS,), True), ((VERDICTS, "-m", "quiet"), False), ((f"{VERDICTS}::{{}}",), False)],
)
def test_verdicts_which_take_a_quiet_machine_are_left_out_unless_asked_for(
    asked: tuple[str, ...], is_left_out: bool
) -> None:
    name = "test_two_products_on_one_cpu_wait_for_it_and_the_neighbour_is_the_cause"
    command = [sys.executable, *COLLECT, *(word.format(name) for word in asked)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == found.returncode, found.stdout + found.stderr
    assert is_left_out == (f"{VERDICTS}::{name}" not in found.stdout.splitlines())


SKIPS = """
import pytest
from primbench.backends import names

@pytest.mark.parametrize("backend", names())
def test_skips(backend, monkeypatch):
    from primbench import backends
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    pytest.skip(backends.missing(backend))
"""


def test_in_ci_a_test_may_lack_a_framework_only_where_it_is_run_with_the_wheel_or_needs_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    options = "-q -rfs -p no:cacheprovider -p conftest"
    command = [sys.executable, "-m", "pytest", *options.split(), "test_skips.py"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests", ROOT))),
        "PRIMBENCH_TESTS_SKIP_NOTHING_INSTALLABLE": "core",
    }
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    failed = re.findall(r"^FAILED \S+\[(\w+)\]", found.stdout, re.MULTILINE)
    assert (1, ["torch", "numba", "numpy"]) == (found.returncode, failed), found.stdout + found.stderr
