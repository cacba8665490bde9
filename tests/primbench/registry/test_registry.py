"""Primitives and kernels from outside: a file that is named, and a package that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from primbench import registry
from primbench.errors import FileError
from primbench.problem import PROBLEMS
from primbench.registry import sources

HALVE = '''
from dataclasses import dataclass

from primbench.problem import Problem, Reference, kernel, size
from primbench.random import random_array


@dataclass(frozen=True)
class Halve(Problem, name="halve"):
    """y[n] = x[n] / 2."""

    n: int = size("elements")

    def bytes_moved(self):
        return 8 * self.n

    def inputs(self, rng):
        return (random_array(rng, (self.n,), "float32"),)

    def reference(self, rng, x):
        return Reference(..., x.astype("float64") / 2, abs(x.astype("float64")))

    def tolerance(self):
        return 1e-6


@kernel("halve", "numpy")
def halve(backend, problem, x):
    import numpy as np

    y = backend.empty((problem.n,), "float32")
    return lambda: np.multiply(x, 0.5, out=y)
'''
QUICK = ("--min-time", "1ms", "--max-time", "10ms")


def primbench(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "primbench", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables},
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "halve.py"
    path.write_text(HALVE)
    return path


def test_a_file_is_measured_in_a_worker_checked_and_recorded(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    found = primbench("--kernels", file, "halve", "-n", "100", *QUICK, "-q", "-o", output)
    assert (0, "") == (found.returncode, found.stderr)
    header, _, record = map(json.loads, output.read_text().splitlines())
    assert ["--kernels", str(file), "halve"] == header["command"][1:4]
    assert ("ok", True) == (record["status"], record["measurement"]["verified"])
    shown, known = primbench("show", output), primbench("--kernels", file, "show", output)
    assert (0, "", known.stdout) == (shown.returncode, shown.stderr, shown.stdout), "the file alone says as much"
    assert "halve n=100" in primbench("compare", output, output).stdout


def test_a_file_is_in_list_help_and_completion(file: Path) -> None:
    assert "halve        y[n] = x[n] / 2. On numpy." in primbench("--kernels", file, "list", "primitives").stdout
    assert "halve        y[n] = x[n] / 2." in primbench("--kernels", file, "--help").stdout
    asked = {"_PRIMBENCH_COMPLETE": "bash_complete", "COMP_WORDS": f"primbench --kernels {file} ha", "COMP_CWORD": "3"}
    assert "plain,halve\n" == primbench(**asked).stdout


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "halving.py").write_text(HALVE)
    information = tmp_path / "halving-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: halving\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[primbench.kernels]\nhalve = halving\n")
    found = primbench("halve", "-n", "100", *QUICK, "-q", PYTHONPATH=str(tmp_path))
    assert (0, "") == (found.returncode, found.stderr)
    assert "ok" == found.stdout.splitlines()[2].split()[-1]
    (tmp_path / "halving.py").write_text("import nowhere")
    broken = primbench("--help", PYTHONPATH=str(tmp_path))
    assert (2, "") == (broken.returncode, broken.stdout)
    assert broken.stderr.startswith(
        "Error: primbench.kernels of the installed package halving, halving: cannot be imported: ModuleNotFoundError"
    )


DOUBLE_GEMM = 'from primbench import kernel\n@kernel("gemm", "numpy")\ndef gemm(backend, problem, *inputs): ...\n'
WRONG = [
    (None, "No such file or directory"),
    ("", "defines no primitive"),
    ("import nowhere", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    ("def", "cannot be imported: SyntaxError"),
    ("raise SystemExit(0)", "cannot be imported: SystemExit"),
    (HALVE.replace('name="halve"', 'name="gemm"'), "primitive 'gemm' is defined in "),
    (DOUBLE_GEMM, "gemm on numpy is registered in "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_file_that_is_of_no_use_is_refused_in_a_line(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    found = primbench("--kernels", path, "list", "backends")
    assert (2, "") == (found.returncode, found.stdout)
    assert 1 == found.stderr.count("\n")
    assert found.stderr.startswith(f"Error: --kernels {path}: ")
    assert message in found.stderr


def test_a_worker_takes_no_other_file_for_the_one_that_was_named(file: Path) -> None:
    with pytest.raises(FileError, match="is another one here"):
        registry.add_file(str(file), "0" * 64)


def test_what_is_shown_of_a_folder_unimported_is_what_its_class_says() -> None:
    said = {name: (PROBLEMS[name].__doc__ or "").splitlines()[0] for name in registry.primitives()}
    assert said == {name: folder.summary for name, folder in sources.folders().items()}
    assert {"bandwidth": "memcpy"} == registry.aliases()
