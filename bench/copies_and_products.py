"""Copies by engines and multiprocessors, one way while the other goes, loads over the bus, and today's products.

Copies and loads are to be held against nvbandwidth on the same machine: host_to_device_memcpy_ce and _sm, their
bidirectional tests, and host_device_latency_sm. Products are float8 with each kind of scale beside bfloat16, and the
experts of Mixtral 8x7B by torch and by a product for each. Takes one GPU with torch and CuPy, and a minute.
"""

from __future__ import annotations

import argparse

from primbench import Method, PrimbenchError, measure
from primbench.kernels.chase import Chase
from primbench.kernels.gemm import Gemm
from primbench.kernels.grouped_gemm import GroupedGemm
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.scaled_gemm import ScaledGemm
from primbench.measurement import Measurement
from primbench.problem import Problem

METHOD = Method(min_time_s=0.2, max_time_s=2)
SIZE_BYTES = 1 << 29  # nvbandwidth's
CUBE = (4096, 4096, 4096)
MIXTRAL = (8, 8192, 14336, 4096, "bfloat16")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for engine in ("ce", "sm"):
        for direction in ("h2d", "d2h", "d2d", "bidirectional"):
            _show("cupy", Memcpy(SIZE_BYTES, direction, engine=engine))
    for order in ("rising", "random"):
        _show("cupy", Chase(1 << 21, order=order))
    for backend in ("torch", "cupy"):
        _show(backend, Gemm(*CUBE, "bfloat16", trans_b=True))
        for scaling in ("tensor", "row", "block"):
            _show(backend, ScaledGemm(*CUBE, scaling=scaling))
        for split in ("even", "random"):
            _show(backend, GroupedGemm(*MIXTRAL, split))


def _show(backend: str, problem: Problem) -> None:
    asked = ", ".join(f"{name}={value}" for name, value in problem.parameters().items() if value not in (-1, False, ""))
    try:
        measured = measure(problem, backend, "cuda:0", method=METHOD)
    except PrimbenchError as refusal:
        print(f"{backend} {problem.primitive} {asked}: {type(refusal).__name__}: {refusal}", flush=True)
    else:
        print(f"{backend} {problem.primitive} {asked}: {_words(problem, measured)}", flush=True)


def _words(problem: Problem, measured: Measurement) -> str:
    figures = {
        name: value for name, value in problem.figures(measured).items() if value and not name.startswith("wall")
    }
    rates = {"TFLOP/s": measured.flop_per_s and measured.flop_per_s / 1e12}
    rates |= {"GB/s": measured.bytes_per_s and measured.bytes_per_s / 1e9} if not measured.flop_per_s else {}
    rates |= {
        name.replace("_bytes_per_s", " GB/s").replace("_s", " ns"): value / 1e9 if "bytes" in name else value * 1e9
        for name, value in figures.items()
    }
    shown = ", ".join(f"{name} {value:.5g}" for name, value in rates.items() if value)
    noise = measured.main.noise if measured.main else None
    return f"{shown} ({measured.algorithm}; noise {noise or 0:.2%})"


if __name__ == "__main__":
    main()
