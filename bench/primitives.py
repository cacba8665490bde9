"""Attention beside the best of torch's backends, and what memory bounds beside a copy within the same GPU.

Attention forward, as primbench times it with algo=auto, is followed by each of torch's backends in turn, timed by two
events around 20 calls, the median of nine, with nothing of primbench in it; what is printed is the least of these times
over primbench's device time.

norm and elementwise move 64 and 256 MiB, bytes as the primitive counts them; the copy, of as many bytes read and
written, is measured before them. Every time is primbench's device time. Takes one GPU and some 90 s; with
`attention` or `memory`, that half alone.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterator
from typing import Any

from primbench import Method, measure
from primbench.backends import missing
from primbench.errors import UnsupportedCase
from primbench.kernels.attention import Attention
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.elementwise.problem import ACTIVATIONS, READS
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.norm import Norm
from primbench.problem import Problem

METHOD = Method(min_time_s=0.02, max_time_s=0.1)
MIB = 2**20
FEATURES, HEADS, HEAD_DIM = 4096, 32, 128
CALLS, ROUNDS = 20, 9
ATTENDED = [
    Attention(16, 16, 512, 64),
    Attention(8, 12, 1024, 64, causal=True),
    Attention(2, 32, 4096, 128, causal=True),
    Attention(2, 32, 4096, 128, kv_heads=8, causal=True),
    Attention(1, 32, 16_384, 128, kv_heads=8, causal=True),
    Attention(4, 24, 4096, 64),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("half", nargs="?", choices=("attention", "memory"))
    asked = parser.parse_args()
    if asked.half != "memory":
        for attention in ATTENDED:
            print(_beside_torch(attention), flush=True)
    if asked.half != "attention":
        _beside_a_copy(asked.dtype)


def _beside_a_copy(dtype: str) -> None:
    for total_bytes in (64 * MIB, 256 * MIB):
        copied = _bytes_per_s(Memcpy(total_bytes // 2, "d2d"), "cupy")
        assert copied is not None
        print(f"{total_bytes // MIB} MiB: a copy reads and writes {copied / 1e9:.0f} GB/s", flush=True)
        for name, problem in _bound_by_memory(total_bytes, dtype):
            shares = {each: _bytes_per_s(problem, each) for each in ("torch", "cupy")}
            words = [f"{backend} {rate / copied:.3f}" for backend, rate in shares.items() if rate is not None]
            print(f"  {name:24} {', '.join(words)}", flush=True)


def _beside_torch(problem: Attention) -> str:
    measured = measure(problem, "torch", "cuda:0", method=METHOD)
    assert measured.device_s is not None
    ours_s, plain_s = measured.device_s.median_s, _plain_s(problem)
    name = min(plain_s, key=plain_s.__getitem__)
    sizes = f"b{problem.batch_size} h{problem.heads}/{problem.kv_heads} s{problem.seq_len} d{problem.head_dim}"
    times = ", ".join(f"{each} {time_s * 1e6:.1f}" for each, time_s in plain_s.items())
    rate = problem.flop() / ours_s / 1e12
    words = f"attention {sizes}{' causal' * problem.causal}: {ours_s * 1e6:.1f} us, {rate:.0f} TFLOP/s"
    return (
        f"{words}, {measured.algorithm}\n  plainly {times} us: the best, {name}, over ours {plain_s[name] / ours_s:.3f}"
    )


def _plain_s(problem: Attention) -> dict[str, float]:
    """Seconds a call of each of torch's backends that takes the problem."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def made(length: int, heads: int) -> Any:
        shape = (problem.batch_size, length, heads, problem.head_dim)
        return torch.rand(shape, dtype=torch.bfloat16, device="cuda").mul_(2).sub_(1).transpose(1, 2)

    q, k, v = made(problem.seq_len, problem.heads), *(made(problem.kv_len, problem.kv_heads) for _ in range(2))
    options = {"is_causal": problem.causal, "enable_gqa": problem.kv_heads != problem.heads}
    found = {}
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
        with sdpa_kernel(getattr(SDPBackend, name)), warnings.catch_warnings(action="ignore"):
            try:
                torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
            except RuntimeError:
                continue
            found[name.partition("_")[0].lower()] = statistics.median(
                _timed_s(torch, lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **options))
                for _ in range(ROUNDS)
            )
    return found


def _timed_s(torch: Any, call: Any) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    elapsed_ms: float = begin.elapsed_time(end)
    return elapsed_ms / 1e3 / CALLS


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
    """By device time; None where the backend has no such kernel."""
    if missing(backend) is not None:
        return None
    try:
        return measure(problem, backend, "cuda:0", method=METHOD).bytes_per_s
    except UnsupportedCase:
        return None


if __name__ == "__main__":
    main()
