"""What memory bounds, as shares of the bandwidth of a copy within the same GPU.

norm and elementwise move 64 and 256 MiB, bytes as the primitive counts them; the copy, of as many bytes read and
written, is measured before them. Every time is primbench's device time, the best of three measurements one after the
other. Takes one GPU and some 40 s.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from primbench import Method, measure
from primbench.backends import missing
from primbench.errors import PrimbenchError
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.elementwise.problem import ACTIVATIONS, READS
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.norm import Norm
from primbench.problem import Problem

METHOD = Method(min_time_s=0.02, max_time_s=0.1)
MIB = 2**20
FEATURES, HEADS, HEAD_DIM = 4096, 32, 128
REPEATED = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    dtype = parser.parse_args().dtype
    for total_bytes in (64 * MIB, 256 * MIB):
        copied = _bytes_per_s(Memcpy(total_bytes // 2, "d2d"), "cupy")
        assert copied is not None
        print(f"{total_bytes // MIB} MiB: a copy reads and writes {copied / 1e9:.0f} GB/s", flush=True)
        for name, problem in _bound_by_memory(total_bytes, dtype):
            shares = {each: _bytes_per_s(problem, each) for each in ("torch", "cupy")}
            words = [f"{backend} {rate / copied:.3f}" for backend, rate in shares.items() if rate is not None]
            print(f"  {name:24} {', '.join(words)}", flush=True)


def _bound_by_memory(total_bytes: int, dtype: str) -> Iterator[tuple[str, Problem]]:
    """What moves about so many bytes."""
    each = 2 if dtype == "bfloat16" else 4
    for op, reads in READS.items():
        elements = total_bytes // (reads + 1) // each // FEATURES * FEATURES
        yield op, Elementwise(elements, op, heads=HEADS, head_dim=HEAD_DIM, dtype=dtype)
    for op in ACTIVATIONS:
        yield f"{op} backward", Elementwise(total_bytes // 3 // each, op, "backward", dtype=dtype)
    for kind in ("layer", "rms"):
        for direction, arrays in (("forward", 2), ("backward", 3)):
            rows = total_bytes // arrays // each // FEATURES
            yield f"{kind} norm {direction}", Norm(rows, FEATURES, kind=kind, direction=direction, dtype=dtype)
    for direction, arrays in (("forward", 2), ("backward", 3)):
        rows = max(1, total_bytes // arrays // each // (256 * 28 * 28))
        yield f"batch norm {direction}", Norm(rows, 256, 28, 28, "batch", direction, dtype=dtype)


def _bytes_per_s(problem: Problem, backend: str) -> float | None:
    """The best of some; None where the backend has no such kernel."""
    if missing(backend) is not None:
        return None
    rates = []
    for _ in range(REPEATED):
        try:
            measured = measure(problem, backend, "cuda:0", method=METHOD)
        except PrimbenchError:
            return None
        rates.append(measured.bytes_per_s or 0.0)
    return max(rates)


if __name__ == "__main__":
    main()
