"""How much longer is a product that follows other kernels than one that follows itself, with its data in the cache?

Each of a few products, those in bfloat16 with biases, is called right after itself; after kernels of much other code;
and after that code, once 150 MB have passed through the GPU's cache, and what the product is given and writes was read
again. By torch's profiler, the median of 60 calls, in microseconds, and over that after itself. Takes one GPU and half
a minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

PRODUCTS = (
    ("float32", 2048, 1024, 256), ("float32", 2048, 256, 1024), ("bfloat16", 2048, 1024, 256),
    ("bfloat16", 2048, 256, 256), ("bfloat16", 4096, 4096, 4096),
)  # fmt: skip
PASSED_BYTES = 150 * 10**6
CALLS = 60


def main() -> None:
    import torch

    vectors = [torch.ones(1000 + length, device="cuda") for length in range(8)]
    passing = torch.zeros(PASSED_BYTES // 4, device="cuda")

    def others() -> None:
        for x in vectors:
            for call in ("sigmoid", "tanh", "cumsum", "sort", "softmax", "std", "argmax"):
                getattr(x, call)(*[0] * (call in ("cumsum", "softmax")))

    for dtype, m, n, k in PRODUCTS:
        made: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, dtype)}
        a, b, biases, c = (torch.randn(shape, **made) for shape in ((m, k), (n, k), (n,), (m, n)))

        def product(a: Any = a, b: Any = b, biases: Any = biases, c: Any = c) -> None:
            if c.dtype == torch.float32:
                torch.mm(a, b.t(), out=c)
            else:
                torch.addmm(biases, a, b.t(), out=c)

        def far(near: tuple[Any, ...] = (a, b, biases, c)) -> None:
            others()
            passing.zero_()
            for each in near:
                each.sum()

        alone_s, behind_s, far_s = (_median_s(before, product) for before in (_nothing, others, far))
        print(
            f"{dtype} {m}x{n}x{k}: after itself {1e6 * alone_s:.2f} us, behind others {1e6 * behind_s:.2f} "
            f"({behind_s / alone_s:.3f}), and as others' memory has passed {1e6 * far_s:.2f} ({far_s / alone_s:.3f})",
            flush=True,
        )


def _nothing() -> None:
    """Before a product that follows itself."""


def _median_s(before: Callable[[], None], product: Callable[[], None]) -> float:
    """Of the kernels of a product, by their profile: the last ones of each turn."""

    def both() -> None:
        before()
        product()

    kernels, turn = (len(_profiled(call, 1)) for call in (product, both))
    found = _profiled(both, CALLS)
    turns = [found[first : first + turn] for first in range(0, len(found), turn)]
    return 1e-6 * statistics.median([sum(float(each.device_time) for each in one[-kernels:]) for one in turns])


def _profiled(call: Callable[[], None], times: int) -> list[Any]:
    """What ran on the GPU, in its order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(times):
            call()
        torch.cuda.synchronize()
    found = [each for each in profiled.events() if each.device_type == torch.autograd.DeviceType.CUDA]
    return sorted(found, key=lambda each: each.time_range.start)


if __name__ == "__main__":
    main()
