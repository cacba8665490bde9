"""What a process pays for memory that it touches first: a page fault each, in which the kernel clears a page.

Memory that a step frees goes back to the kernel where much of it is free at once (mallopt(3), M_TRIM_THRESHOLD and
M_MMAP_THRESHOLD), and is paid for again in the next step; a part that is called over and over finds its own at hand.
"""

from __future__ import annotations

import functools
import resource
import time

PROBE_BYTES = 2**26  # more than glibc ever keeps of one piece, which is so new at each allocation


def faults_so_far() -> int:
    """Of this thread, of pages that came from no disk."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


@functools.cache
def fault_s() -> float | None:
    """What a page costs, from its first touch to its return to the kernel, beside a write to it; None where no write
    is a first touch, as with huge pages at hand.
    """
    import torch

    times_s, counts = [], []
    for _ in range(3):
        begun, before = time.perf_counter(), faults_so_far()
        memory = torch.empty(PROBE_BYTES, dtype=torch.uint8)
        memory[::4096] = 1  # by this thread alone
        first_s, counted = time.perf_counter() - begun, faults_so_far() - before
        begun = time.perf_counter()
        memory[::4096] = 2
        again_s = time.perf_counter() - begun
        begun = time.perf_counter()
        del memory
        times_s.append(first_s - again_s + time.perf_counter() - begun)
        counts.append(counted)
    return max(0.0, min(times_s)) / min(counts) if min(counts) else None
