"""What starting up imports: a framework costs a second, and --help, list and completion need none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {
    "cupti", "cupy", "llvmlite", "ml_dtypes", "numba", "numpy", "pandas", "pynvml", "rich", "scipy", "tabulate",
    "threadpoolctl", "torch",
}  # fmt: skip


def imported(*command: str, **variables: str) -> set[str]:
    """Top-level names of the modules that Python reports having imported."""
    found = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", *command],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **variables},
    )  # fmt: skip
    lines = [line for line in found.stderr.splitlines() if line.startswith("import time:")]
    assert found.stderr.splitlines() == lines, "only import times are expected on stderr"
    return {line.rpartition("|")[2].strip().split(".")[0] for line in lines}


LIGHT = ["--help", "--version", "gemm --help", "run --help", "list", "list backends", "show --help", "schema"]


@pytest.mark.parametrize("arguments", LIGHT)
def test_light_commands_import_no_framework_and_no_table(arguments: str) -> None:
    found = imported("-m", "primbench", *arguments.split())
    assert {"primbench", "click"} <= found
    assert set() == found & HEAVY


def test_help_needs_no_msgspec() -> None:
    assert "msgspec" not in imported("-m", "primbench", "--help")


@pytest.mark.parametrize("words", ["primbench ", "primbench gemm --backend ", "primbench run "])
def test_completion_imports_no_framework(words: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    found = imported("-m", "primbench", _PRIMBENCH_COMPLETE="bash_complete", **asked)
    assert {"primbench", "click"} <= found
    assert set() == found & HEAVY


def test_import_of_the_package_costs_next_to_nothing() -> None:
    found = imported("-c", "import primbench")
    assert "primbench" in found
    assert set() == found & (HEAVY | {"click", "msgspec", "psutil"})


def test_the_parse_of_import_times_sees_a_heavy_module() -> None:
    assert "numpy" in imported("-c", "import numpy")
