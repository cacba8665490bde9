"""For how long NumPy's threads spin where another library is timed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from primbench.backends import missing
from primbench.workers.numpy_threads import LEAST, VARIABLE, _brings_its_own
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start

TELL = """
import ctypes, os, sys
from primbench.workers.numpy_threads import VARIABLE, rest_beside
rest_beside(sys.argv[1])
import numpy
paths = {line.split()[-1] for line in open("/proc/self/maps") if "numpy.libs" in line and "openblas" in line}
print(*(ctypes.CDLL(path).openblas_thread_timeout() for path in paths), os.environ.get(VARIABLE))
"""


pytestmark = pytest.mark.skipif(not _brings_its_own(), reason="NumPy has no OpenBLAS of its own here: pip's wheels do")


@pytest.mark.parametrize(
    ("backend", "own", "told"),
    [("torch", None, f"{LEAST} None"), ("numpy", None, "0 None"), ("torch", "20", "20 20")],
    ids=["another", "numpy", "as the user says"],
)
def test_openblas_is_told_to_rest_where_another_library_is_timed(backend: str, own: str | None, told: str) -> None:
    """0 is OpenBLAS's own 28: 2^28 ticks."""
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    variables |= {VARIABLE: own} if own else {}
    command = [sys.executable, "-c", TELL, backend]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=60)
    *ticks, variable = done.stdout.split()
    assert told.split() == [*ticks, variable]


KERNEL = """
import ctypes
from primbench.problem import kernel

@kernel("softmax", "numpy", name="own")
def own(backend, problem, x): ...

paths = [line.split()[-1] for line in open("/proc/self/maps") if "numpy.libs" in line and "openblas" in line]
with open({told!r}, "w") as file:
    print(*(ctypes.CDLL(path).openblas_thread_timeout() for path in paths[:1]), file=file)
"""


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_worker_has_it_so_before_it_imports_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    path, told = tmp_path / "own.py", tmp_path / "told"
    path.write_text(KERNEL.format(told=str(told)))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    worker = WorkerProcess(Start(backend="torch", device="cpu", kernels={str(path): sha256}))
    variables = worker.ready.environment.software.variables or {}
    worker.end()
    assert (LEAST, None) == (told.read_text().strip(), variables.get(VARIABLE))
