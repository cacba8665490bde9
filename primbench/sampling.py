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
HALVES = 5  # fewest samples in each of the two halves that warm-up compares
HALVES_AGREE = 0.01
SECONDARY_SHARE = 0.03


@dataclass(frozen=True)
class Rule:
    """When to stop: quiet and steady after ``min_time_s``, or ``max_time_s``, but never below 6 samples."""

    max_noise: float
    min_time_s: float
    max_time_s: float


def main_rule(method: Method) -> Rule:
    return Rule(method.max_noise, method.min_time_s, method.max_time_s)


def secondary_rule(method: Method) -> Rule:
    """Metrics beside the main one get a few percent of its time: their scatter is itself a finding."""
    return Rule(method.max_noise, method.min_time_s * SECONDARY_SHARE, method.max_time_s * SECONDARY_SHARE)


class Calls:
    """Makes ``count`` calls, going round the closures of the input sets."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._next = 0

    def __call__(self, count: int) -> None:
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


def warm_up(take: Take, clock: Clock, *, window_s: float, max_time_s: float) -> None:
    """Take samples, and forget them, until two halves of the recent ones agree within 1 %, as pyperf does.

    The halves together last at least ``window_s`` and hold at least 10 samples. A GPU that reaches its power limit
    takes 0.1 s to slow down: halves of a few milliseconds each would agree long before.
    """
    start = clock()
    ended: list[tuple[int, float]] = []
    while True:
        samples = take()
        now = clock()
        ended += [(now, sample) for sample in samples]
        if (now - start) / 1e9 >= max_time_s:
            return
        if (now - start) / 1e9 >= window_s and _halves_agree(_recent(ended, now - round(window_s * 1e9))):
            return


def _recent(ended: list[tuple[int, float]], since_ns: int) -> list[float]:
    within = [sample for end, sample in ended if end >= since_ns]
    return within if len(within) >= 2 * HALVES else [sample for _, sample in ended[-2 * HALVES :]]


def _halves_agree(recent: list[float]) -> bool:
    return len(recent) >= 2 * HALVES and _drift(recent) <= HALVES_AGREE


def _drift(samples: list[float]) -> float:
    """How far the medians of the earlier and the later half lie apart, over the larger."""
    half = len(samples) // 2
    earlier, later = stats.quantile(samples[:half], 0.5), stats.quantile(samples[half:], 0.5)
    return abs(earlier - later) / max(earlier, later)


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
            # The interval supposes samples without a trend; the clock of a GPU at its power limit wanders for longer
            # than it takes to collect a quiet hundred.
            quiet = noise is not None and noise <= rule.max_noise and _drift(samples) <= rule.max_noise
            stopped = "noise" if quiet else None
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
