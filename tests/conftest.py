from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from primbench.cli import main

STREAMS_APART: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}  # click 8.1
# CI installs every CPU framework and then sets this: a test skipped for want of one of them has found a fault in CI.
SKIP_NOTHING_INSTALLABLE = "PRIMBENCH_TESTS_SKIP_NOTHING_INSTALLABLE" in os.environ
NOT_INSTALLABLE = re.compile(r"GPU|cupy|CUDA|/dev/nvidia|root", re.IGNORECASE)

ROOT = Path(__file__).parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if SKIP_NOTHING_INSTALLABLE and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not NOT_INSTALLABLE.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: skipped where everything it needs should be installed: {reason}"
    return report


@pytest.fixture(scope="session")
def faulty_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: a copy of the package that has the primitive ``faulty``, too."""
    folder = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "primbench", folder / "primbench", ignore=ignore)
    for part in ("kernels", "suites"):
        shutil.copytree(ROOT / part, folder / "primbench" / part, ignore=ignore)
    shutil.copy(ROOT / "tests/primbench/fixtures/faulty.py", folder / "primbench/kernels/faulty.py")
    return folder


@pytest.fixture(scope="session")
def invoke() -> Callable[..., Result]:
    """The command line in this process. An exception that the command line does not handle is raised."""

    def run(*arguments: Any) -> Result:
        return CliRunner(**STREAMS_APART).invoke(
            main, [str(a) for a in arguments], prog_name="primbench", catch_exceptions=False
        )

    return run


@pytest.fixture(scope="session")
def refusal(invoke: Callable[..., Result]) -> Callable[..., str]:
    """The one error line of a command that exits with 2 and says nothing else."""

    def of(*arguments: Any) -> str:
        result = invoke(*arguments)
        assert (2, "") == (result.exit_code, result.stdout), result.output
        (error,) = result.stderr.splitlines()
        assert error.startswith("Error: "), result.stderr
        return error.removeprefix("Error: ")

    return of


@pytest.fixture(scope="session")
def measured(invoke: Callable[..., Result], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A small results file, and what the command that made it printed: two cases ok, one skipped."""
    path = tmp_path_factory.mktemp("measured") / "results.jsonl"
    dtypes = ("--dtype", "float32", "--dtype", "float64", "--dtype", "bfloat16")
    times = ("--min-time", "5ms", "--max-time", "20ms")
    return path, invoke(
        "gemm", "-m", 16, "-n", 24, "-k", 8, *dtypes, *times, "--backend", "numpy", "--label", "where=here", "-o", path
    )
