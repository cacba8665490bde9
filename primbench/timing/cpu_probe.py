"""How fast the CPU is at the moment: a short loop of Python, timed beside what is measured."""

from __future__ import annotations

import itertools
import time

TURNS = 4_000  # of the loop; they take some 25 us
EVERY_S = 0.5e-3  # at most so often: the loop takes a twentieth of it


class Loop:
    """Calling it times the loop, unless that was done a moment ago."""

    def __init__(self) -> None:
        self._ended_ns = 0

    def __call__(self) -> float | None:
        """Seconds; None where too little time has passed."""
        start_ns = time.perf_counter_ns()
        if start_ns - self._ended_ns < EVERY_S * 1e9:
            return None
        for _ in itertools.repeat(None, TURNS):  # not numbers, which need memory: PYTHONMALLOC=debug makes it dear
            pass
        self._ended_ns = time.perf_counter_ns()
        return (self._ended_ns - start_ns) / 1e9
