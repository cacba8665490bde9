"""Warm up, choose how many calls make a sample, and sample until the median is known. The clock is an argument."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from primbench import stats
from primbench.measurement import Method, Samples
from primbench.problem import Step

Clock = Callable[[], int]
"""Nanoseconds from any origin, like time.perf_counter_ns."""
Take = Callable[[], list[float]]
"""Takes one or more samples, in seconds a call."""

CLOCK: Clock = time.perf_counter_ns
MIN_SAMPLES = 6  # the fewest for which a 95 % interval of the median exists
HALVES = 5  # samples in each of the two halves that warm-up compares
HALVES_AGREE = 0.01
SECONDARY_SHARE = 0.1


@dataclass(frozen=True)
class Rule:
    """When to stop: quiet enough after ``min_time_s``, or ``max_time_s``, but never below 6 samples."""

    max_noise: float
    min_time_s: float
    max_time_s: float


def main_rule(method: Method) -> Rule:
    return Rule(method.max_noise, method.min_time_s, method.max_time_s)


def secondary_rule(method: Method) -> Rule:
    """Metrics beside the main one get a tenth of its time: their scatter is itself a finding."""
    return Rule(method.max_noise, method.min_time_s * SECONDARY_SHARE, method.max_time_s * SECONDARY_SHARE)


class Calls:
    """Makes ``count`` calls, going round the closures of the input sets."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._next = 0
        self.made = 0

    def __call__(self, count: int) -> None:
        self.made += count
        steps = self._steps
        if len(steps) == 1:
            step = steps[0]
            for _ in range(count):
                step()
            return
        first = self._next
        self._next = (first + count) % len(steps)
        for step in [steps[(first + i) % len(steps)] for i in range(count)]:
            step()


def warm_up(take: Take, clock: Clock, min_time_s: float, max_time_s: float) -> None:
    """Take samples, and forget them, until the medians of the last two halves agree within 1 %, as pyperf does."""
    start = clock()
    recent: list[float] = []
    while True:
        recent = (recent + take())[-2 * HALVES :]
        spent_s = (clock() - start) / 1e9
        if spent_s >= max_time_s or (spent_s >= min_time_s and _halves_agree(recent)):
            return


def _halves_agree(recent: list[float]) -> bool:
    if len(recent) < 2 * HALVES:
        return False
    earlier, later = stats.quantile(recent[:HALVES], 0.5), stats.quantile(recent[HALVES:], 0.5)
    return abs(earlier - later) <= HALVES_AGREE * max(earlier, later)


def collect(take: Take, rule: Rule, clock: Clock, *, calls_per_sample: int, taken_by: str) -> Samples:
    """Sample until the rule says stop; every sample is kept."""
    samples: list[float] = []
    start, look_at = clock(), MIN_SAMPLES
    stopped: Literal["noise", "max time"] | None = None
    while stopped is None:
        samples += take()
        spent_s = (clock() - start) / 1e9
        if len(samples) < MIN_SAMPLES:
            continue
        if spent_s >= rule.min_time_s and len(samples) >= look_at:
            look_at = len(samples) + len(samples) // 10 + 1  # sorting at every sample would cost more than sampling
            noise = stats.relative_noise(samples)
            stopped = "noise" if noise is not None and noise <= rule.max_noise else None
        if stopped is None and spent_s >= rule.max_time_s:
            stopped = "max time"
    return Samples(samples_s=samples, calls_per_sample=calls_per_sample, taken_by=taken_by, stopped=stopped)


def host_timed(calls: Calls, count: int, clock: Clock) -> Take:
    """Samples of the host clock around ``count`` calls."""

    def take() -> list[float]:
        start = clock()
        calls(count)
        return [(clock() - start) / 1e9 / count]

    return take


@contextmanager
def garbage_kept() -> Iterator[None]:
    """No garbage collection inside: it would land in some samples and not in others."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
