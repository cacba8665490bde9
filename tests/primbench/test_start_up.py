"""What starting up imports: a framework costs a second, and --help, list and completion need none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

pytestmark = pytest.mark.wheel

HEAVY = {
    "cupti", "cupy", "llvmlite", "ml_dtypes", "numba", "numpy", "pandas", "pynvml", "rich", "scipy", "tabulate",
    "threadpoolctl", "torch",
}  # fmt: skip


def imported(*command: str, **variables: str) -> set[str]:
    """Names of the modules that Python reports having imported, and of the packages that they are in."""
    with tempfile.TemporaryDirectory() as empty:  # where nothing lies that is to be cleared away
        found = subprocess.run(
            [sys.executable, "-P", "-X", "importtime", *command],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "TMPDIR": empty, **variables},
        )  # fmt: skip
    lines = [line for line in found.stderr.splitlines() if line.startswith("import time:")]
    assert found.stderr.splitlines() == lines, "only import times are expected on stderr"
    names = [line.rpartition("|")[2].strip().split(".") for line in lines]
    return {".".join(parts[:length]) for parts in names for length in range(1, len(parts) + 1)}


LIGHT = ["run --help", "list", "list backends", "show --help", "show --schema"]


@pytest.mark.parametrize("arguments", LIGHT)
def test_light_commands_import_no_framework_and_no_table(arguments: str) -> None:
    found = imported("-m", "primbench", *arguments.split())
    assert {"primbench", "click"} <= found
    assert set() == found & HEAVY


ONLY_MEASURED = {
    "msgspec", "ctypes", "logging", "importlib.metadata", "primbench.cuda", "primbench.gpu", "primbench.system.files",
    "primbench.workers",
}  # fmt: skip
OF_A_PRIMITIVE = {"dataclasses", "primbench.problem", "primbench.units"}


@pytest.mark.parametrize(("arguments", "folders"), [("--help", set()), ("--version", set()), ("gemm --help", {"gemm"})])
def test_help_waits_for_nothing_that_only_a_measurement_needs(arguments: str, folders: set[str]) -> None:
    found = imported("-m", "primbench", *arguments.split())
    assert {"primbench", "click"} <= found
    assert set() == found & (HEAVY | ONLY_MEASURED if folders else HEAVY | ONLY_MEASURED | OF_A_PRIMITIVE)
    files = {name for name in found if name.startswith("primbench.kernels.")}
    assert {f"primbench.kernels.{folder}{file}" for folder in folders for file in ("", ".problem")} == files


@pytest.mark.parametrize("words", ["primbench ", "primbench gemm --backend ", "primbench run "])
def test_completion_imports_no_framework(words: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    found = imported("-m", "primbench", _PRIMBENCH_COMPLETE="bash_complete", **asked)
    assert {"primbench", "click"} <= found
    assert set() == found & (HEAVY | {"primbench.cuda", "primbench.kernels.conv"})


def test_import_of_the_package_costs_next_to_nothing() -> None:
    found = imported("-c", "import primbench")
    assert "primbench" in found
    assert set() == found & (HEAVY | {"click", "msgspec", "psutil"})


def test_the_parse_of_import_times_sees_a_heavy_module() -> None:
    assert "numpy" in imported("-c", "import numpy")
