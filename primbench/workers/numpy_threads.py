"""NumPy's threads in a process that times another library, which NumPy's output is the reference of."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

VARIABLE, LEAST = "OPENBLAS_THREAD_TIMEOUT", "4"  # OpenBLAS, driver/others/blas_server.c: 2^4 ticks of a clock


def rest_beside(backend: str | None) -> None:
    """Import NumPy, whose OpenBLAS's threads sleep as soon as they have nothing to do where another backend is timed.

    Else they spin for 2^28 ticks after a product, 0.1 s, on CPUs that the threads of what is timed next want: longer
    than the warm-up of a short case. Nothing is done where NumPy is timed itself, or has its OpenBLAS from where others
    may have theirs.
    """
    if backend in (None, "numpy") or VARIABLE in os.environ or not _brings_its_own():
        return
    os.environ[VARIABLE] = LEAST  # which OpenBLAS reads once, as it is loaded
    try:
        import numpy  # noqa: F401 - as every framework does
    finally:
        del os.environ[VARIABLE]


def _brings_its_own() -> bool:
    """As NumPy's wheels do. Does not import it."""
    found = find_spec("numpy")
    if found is None or found.origin is None:
        return False
    return any(Path(found.origin).parents[1].glob("numpy.libs/*openblas*"))
