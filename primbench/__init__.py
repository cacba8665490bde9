"""Timed deep-learning primitives, and what a place (host, container, NUMA node) costs them.

>>> import primbench
>>> from primbench.kernels.gemm import Gemm
>>> primbench.measure(Gemm(512, 512, 512), backend="numpy").verified
True
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing takes longer to import than this, and Ctrl-C shows a traceback until __main__ has begun
if TYPE_CHECKING:
    from primbench.decompose.recording import capture
    from primbench.errors import (
        BackendUnavailable,
        FileError,
        InvalidRequest,
        OutputError,
        PlacementError,
        PrimbenchError,
        UnsupportedCase,
        VerificationError,
    )
    from primbench.experiments.functions import time, versus
    from primbench.experiments.why.ask import why
    from primbench.measurement import Measurement, Samples
    from primbench.problem import Problem, kernel
    from primbench.results.file import Results
    from primbench.results.file import read as load
    from primbench.results.record import Record
    from primbench.spec.case import Case
    from primbench.spec.method import Method
    from primbench.spec.placement import Placement
    from primbench.timing.case import measure, setup
    from primbench.workers.run import run

__version__ = "1.0.0rc1"

_HOMES = {
    "decompose.recording": ("capture",),
    "errors": (
        "BackendUnavailable", "FileError", "InvalidRequest", "OutputError", "PlacementError", "PrimbenchError",
        "UnsupportedCase", "VerificationError",
    ),
    "experiments.functions": ("time", "versus"),
    "experiments.why.ask": ("why",),
    "measurement": ("Measurement", "Samples"),
    "problem": ("Problem", "kernel"),
    "results.file": ("Results", "load"),
    "results.record": ("Record",),
    "spec.case": ("Case",),
    "spec.method": ("Method",),
    "spec.placement": ("Placement",),
    "timing.case": ("measure", "setup"),
    "workers.run": ("run",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BackendUnavailable", "Case", "FileError", "InvalidRequest", "Measurement", "Method", "OutputError",
    "Placement", "PlacementError", "PrimbenchError", "Problem", "Record", "Results", "Samples", "UnsupportedCase",
    "VerificationError", "__version__", "capture", "kernel", "load", "measure", "run", "setup", "time", "versus", "why",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name's module when it is first used: `import primbench` itself costs next to nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'primbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"primbench.{_HOME_OF[name]}"), "read" if name == "load" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
