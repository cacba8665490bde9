"""Warm up, choose how many calls make a sample, and sample until the median is known. The clock is an argument."""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from primbench import stats
from primbench.measurement import Samples
from primbench.timing.cpu_probe import Loop, Queue, ReadBetween
from primbench.timing.host_counters import has_quota
from primbench.timing.phases import Phases

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.measurement.readings import Turns
    from primbench.spec.method import Method
    from primbench.timing.calls import CallLoop

Stopped = Literal["noise", "max time", "count"]

Clock = Callable[[], int]
"""Nanoseconds from any origin, like time.perf_counter_ns."""
Take = Callable[[], list[float]]
"""Takes one or more samples, in seconds a call."""

CLOCK: Clock = time.perf_counter_ns
MIN_SAMPLES = 6  # the fewest for which a 95 % interval of the median exists
TOO_SHORT = "the warm-up ended before it had six samples"
HALVES = 3  # fewest samples in each of the two halves that warm-up compares
HALVES_AGREE = 0.01
REPEATS = 0.001  # a tenth of the least margin: processes differ by more
SECONDARY_MIN_SHARE, SECONDARY_MAX_SHARE = 0.03, 0.01  # of min_time_s and max_time_s: 3 to 20 ms
MIN_TURNS = 6  # of a metric, where processes take turns; of fewer, one in which the machine was slower counts too much
FEW_TURNS = 3  # of one by which nothing is judged, or in which is nothing that slows a CPU
TAIL_SAMPLES = 10_000  # ten of them lie beyond p99.9
TAIL_TIMES = 2.5  # times min_time_s, in which there is time for TAIL_SAMPLES of 25 us


@dataclass(frozen=True)
class StoppingRule:
    """When to stop: quiet and steady after ``min_time_s``, or ``max_time_s``; below 6 samples only after ``hard_s``."""

    max_noise: float
    min_time_s: float
    max_time_s: float
    max_samples: float = math.inf
    """So many samples are enough whatever they say."""
    hard_s: float = math.inf
    repeats: float = 0.0
    """Samples that are as quiet and steady as this are enough before ``min_time_s``, too: 0 where that is not to be."""
    least_turns: int = MIN_TURNS
    """Turns that a metric has of each process, where processes take turns, unless they take longer than ``hard_s``."""

    def most_noise(self, spent_s: float) -> float:
        """Of samples that are enough by now; 0 where none are."""
        return self.max_noise if spent_s >= self.min_time_s else self.repeats


class Pace:
    """The clock that measures, and how processes that time the same calls at the same time keep in step.

    They take the same decisions, because each is made from what now() and slowest() tell all of them. Here there is
    one process, which decides alone.
    """

    def __init__(self, clock: Clock = CLOCK) -> None:
        self.clock = clock
        self.loop: Loop | None = Loop()
        self.queue = Queue()
        self.has_others = False  # processes that take turns with this one
        self.others_follow = False  # and begin after it, before any of them samples
        self.phases = Phases(self.own)

    def __call__(self) -> int:
        """The clock's, for what needs no more of it."""
        return self.clock()

    def turns(self) -> Turns | None:
        """What there was of them; None where no others take any."""
        return None

    def own(self) -> int:
        """Nanoseconds of this process's own doing."""
        return self.clock()

    def now(self) -> int:
        """Nanoseconds by which sampling is ended, the same everywhere."""
        return self.own()

    def slowest(self, values: list[float]) -> list[float]:
        """Each value's maximum over all ranks, so that times are those of the slowest; alone, the values."""
        return values

    def begin(self) -> None:
        """A barrier: return in all ranks at the same moment; alone, at once."""

    def in_place(self, calls: CallLoop, device: Device) -> AbstractContextManager[None]:
        """Where calls are made from inside."""
        return nullcontext()

    def shared(self, metric: str, rule: StoppingRule) -> StoppingRule:
        """The rule, or another one where a study has found out how long this metric is worth sampling."""
        return rule

    def meet(self, uncounted: Callable[[], object], rule: StoppingRule) -> None:
        """Before a metric: wait until all processes that take turns are there; alone, go on at once."""

    def is_over(self, stopped: Stopped | None, uncounted: Callable[[], object]) -> bool:
        """Whether sampling ends here. stopped: what would end it, were this process alone.

        Where processes take turns this is where they change; uncounted() is called then as often as it takes until
        calls last what they last to a process alone.
        """
        return stopped is not None

    def host_timed(self, calls: CallLoop, count: int) -> Take:
        """Samples of the host clock around ``count`` calls, begun together, of the process that took longest."""
        take = host_timed(calls, count, self.clock)

        def in_step() -> list[float]:
            self.begin()
            return self.slowest(take())

        return in_step


def main_rule(method: Method, least_turns: int = MIN_TURNS) -> StoppingRule:
    """Where intervals are over processes, a process that repeats within REPEATS tells by six samples what it can.

    Not where a quota may stop it after them.
    """
    repeats = REPEATS if method.unit == "process" and not has_quota() else 0.0
    return StoppingRule(
        method.max_noise,
        method.min_time_s,
        method.max_time_s,
        hard_s=_hard_s(method),
        repeats=repeats,
        least_turns=least_turns,
    )


def secondary_rule(method: Method) -> StoppingRule:
    """Metrics beside the main one get a few percent of its time: their scatter is itself a finding."""
    return StoppingRule(
        method.max_noise,
        min(method.min_time_s * SECONDARY_MIN_SHARE, method.max_time_s * SECONDARY_MAX_SHARE),
        method.max_time_s * SECONDARY_MAX_SHARE,
        hard_s=_hard_s(method),
        least_turns=FEW_TURNS,
    )


def tail_rule(method: Method) -> StoppingRule:
    """The rule for metrics whose rare slow calls are a finding: enough samples for p99.9 where calls are quick."""
    min_time_s = min(TAIL_TIMES * method.min_time_s, method.max_time_s)
    return StoppingRule(method.max_noise, min_time_s, method.max_time_s, TAIL_SAMPLES, _hard_s(method))


def _hard_s(method: Method) -> float:
    return method.max_time_s if method.unit == "process" else math.inf


def warm_up(
    take: Take, clock: Clock, *, window_s: float, max_time_s: float, is_enough: Callable[[], bool] = lambda: True
) -> float | None:
    """Take samples, and forget them, until two halves of the recent ones agree within 1 %, as pyperf does.

    The halves together last at least ``window_s`` and hold at least 6 samples. A GPU that reaches its power limit
    takes 0.1 s to slow down: halves of a few milliseconds each would agree long before. is_enough: for what else it
    goes on, however long that takes. Returns how far the halves lay apart in the end, as a share of the larger; None of
    fewer samples.
    """
    start = clock()
    ended: list[tuple[int, float]] = []
    while True:
        samples = take()
        now = clock()
        ended += [(now, sample) for sample in samples]
        spent_s = (now - start) / 1e9
        apart = _halves_apart(_recent(ended, now - round(window_s * 1e9)))
        is_warm = spent_s >= window_s and apart is not None and apart <= HALVES_AGREE
        if (is_warm or spent_s >= max_time_s) and is_enough():
            return apart


def _recent(ended: list[tuple[int, float]], since_ns: int) -> list[float]:
    """From the end: a warm-up that finds no rest has thousands of samples, and looks at each that comes."""
    within = sum(1 for _ in itertools.takewhile(lambda each: each[0] >= since_ns, reversed(ended)))
    return [sample for _, sample in ended[-max(within, 2 * HALVES) :]]


def _halves_apart(recent: list[float]) -> float | None:
    return _drift(recent) if len(recent) >= 2 * HALVES else None


def _drift(samples: list[float]) -> float:
    """How far the medians of the earlier and the later half lie apart, over the larger."""
    half = len(samples) // 2
    earlier, later = stats.quantile(samples[:half], 0.5), stats.quantile(samples[half:], 0.5)
    return abs(earlier - later) / max(earlier, later)


def collect(
    take: Take,
    rule: StoppingRule,
    pace: Pace,
    *,
    calls_per_sample: int,
    taken_by: str,
    metric: str = "",
    loop: Loop | None = None,
    uncounted: Callable[[], object] | None = None,
) -> Samples:
    """Sample until the rule says stop; every sample is kept.

    metric: its name in Measurement, by which processes that take turns may be told how long it is worth sampling, and
    that of the phase which ends here.

    loop: tells beside each sample how fast the CPU is; for times in which the host has a part. uncounted: what is
    called at the beginning of a turn, where not ``take``.
    """
    samples: list[float] = []
    rule = pace.shared(metric, rule)
    with ReadBetween(loop, pace.queue) as beside:
        pace.meet(uncounted or take, rule)
        start, look_at = pace.now(), MIN_SAMPLES
        stopped: Stopped | None = None
        is_over = False
        while not is_over:
            beside.look(len(samples))
            samples += take()
            spent_s = (pace.now() - start) / 1e9
            most_noise = rule.most_noise(spent_s) if len(samples) >= look_at else 0.0
            if most_noise:
                look_at = len(samples) + len(samples) // 10 + 1  # sorting at every sample would cost more than sampling
            stopped = _stopped(samples, rule, spent_s, most_noise) or stopped
            is_over = pace.is_over(stopped, uncounted or take)
        beside.end()
    if metric:
        pace.phases.end(metric)
    assert stopped is not None
    return Samples(
        samples_s=samples,
        calls_per_sample=calls_per_sample,
        taken_by=taken_by,
        stopped=stopped,
        loops_s=beside.loops_s,
        queued_s=beside.queued_s,
    )


def _stopped(samples: list[float], rule: StoppingRule, spent_s: float, most_noise: float) -> Stopped | None:
    """What ends the sampling here. most_noise: of samples that do; 0 where these are not looked at."""
    if len(samples) < MIN_SAMPLES and spent_s < rule.hard_s:
        return None
    if most_noise and _is_quiet(samples, most_noise):
        return "noise"
    if spent_s >= rule.max_time_s:
        return "max time"
    return "count" if len(samples) >= rule.max_samples else None


def _is_quiet(samples: list[float], max_noise: float) -> bool:
    """The interval supposes samples without a trend; the clock of a GPU at its power limit wanders for longer than it
    takes to collect a quiet hundred."""
    noise = stats.relative_noise(samples)
    return noise is not None and noise <= max_noise and _drift(samples) <= max_noise


def nothing() -> None:
    """What goes uncounted before samples that begin with calls of their own which do not count, or need none."""


def host_timed(calls: CallLoop, count: int, clock: Clock) -> Take:
    """Samples of the host clock around ``count`` calls."""

    def take() -> list[float]:
        calls.prepare()
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
