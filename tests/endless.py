"""A case that is measured for longer than any test lasts, and the worker that it is given to."""

from __future__ import annotations

from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.protocol import Start

START = Start(backend="numpy", device="cpu")
ENDLESS = Case(
    primitive="gemm",
    parameters={"m": 32, "n": 48, "k": 16},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=300, max_time_s=300),
)
