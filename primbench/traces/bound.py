"""What bounds the steps of a trace: how long the GPU computed, and what it waited for while it did not.

A step on a GPU lasts from when it begins the first thing that the step has started to when it begins that of the next.
Within, each moment belongs to one part: a kernel; else a collective; else a copy between host and GPU; else nothing
ran there, and the part is what the thread was doing that started what ran next, until it started that. On a CPU a step
lasts as long as the script's, and its moments are those in which some thread was in an operator, or waited for data, or
none was.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from primbench.report.step_bound import bounding
from primbench.traces.kineto import is_collective

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.report.step_bound import StepPart
    from primbench.traces.kineto import HostCall, OnGpu, TraceFile

_ON_GPU: dict[str, StepPart] = {"kernel": "kernels", "collective": "collectives", "copy": "copies"}
_MOST_NAME = 60


class Named(NamedTuple):
    """Kernels of a name, or operators that were not within another one."""

    name: str
    calls: float
    """A step."""
    time_s: float
    """A step, of all of them together."""


@dataclass(frozen=True)
class StepBound:
    """The steps of a trace, on the mean."""

    steps: int
    """How many of them are told of; 1 where the script told the profiler of none."""
    is_whole: bool
    """Whether the trace as a whole is the step."""
    step_s: float
    parts_s: Mapping[StepPart, float]
    """They add up to step_s. The most comes first."""
    largest: Sequence[Named]
    """All kernels, or operators, the longest first."""
    launches: float
    """What a step starts on the GPU."""
    waits: float
    """How often a step waits until the GPU has done what was started."""
    collective_s: float
    """Of collectives in a step, also while kernels ran beside them."""
    on_gpu: bool

    @property
    def part(self) -> StepPart | None:
        """What bounds the steps."""
        return bounding(self.parts_s, on_gpu=self.on_gpu)


def bound_of(trace: TraceFile) -> StepBound:
    """What its steps have in common."""
    return _of_gpu(trace) if trace.on_gpu else _of_host(trace)


def _of_gpu(trace: TraceFile) -> StepBound:
    several = windows(trace)
    threads = _Threads(trace.calls)
    parts_s: dict[StepPart, float] = defaultdict(float)
    for window in several:
        for part, time_s in _parts(window, threads):
            parts_s[part] += time_s
    ran = [each for window in several for each in window.ran]
    collectives = (each.end_s - each.begin_s for each in ran if each.work == "collective")
    return _bound(
        len(several), sum(window.end_s - window.begin_s for window in several), parts_s,
        [(each.name, each.end_s - each.begin_s) for each in ran], is_whole=not trace.steps, launches=len(ran),
        waits=_waits(trace.calls, several[0].begin_s, several[-1].end_s), collective_s=sum(collectives), on_gpu=True,
    )  # fmt: skip


def _waits(calls: Iterable[HostCall], begin_s: float, end_s: float) -> int:
    return sum(call.doing == "wait" and begin_s <= call.begin_s < end_s for call in calls)


def _bound(
    steps: int, step_s: float, parts_s: Mapping[StepPart, float], ran: Iterable[tuple[str, float]], *,
    is_whole: bool, launches: float = 0.0, waits: float = 0.0, collective_s: float, on_gpu: bool,
) -> StepBound:  # fmt: skip
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, time_s in ran:
        by_name[shown(name)].append(time_s)
    named = [Named(name, len(each) / steps, sum(each) / steps) for name, each in by_name.items()]
    ordered = sorted(parts_s.items(), key=lambda pair: -pair[1])
    return StepBound(
        steps, is_whole, step_s / steps, {part: time_s / steps for part, time_s in ordered if time_s > 0},
        sorted(named, key=lambda each: -each.time_s), launches / steps, waits / steps, collective_s / steps, on_gpu,
    )  # fmt: skip


@functools.cache
def shown(name: str) -> str:
    """A kernel's name without what its templates are made with, and no longer than a line."""
    kept, depth = [], 0
    for letter in name.removeprefix("void ").replace("(anonymous namespace)::", ""):
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">"
    short = "".join(kept).partition("(")[0].strip() or name
    return short if len(short) <= _MOST_NAME else f"{short[: _MOST_NAME - 3]}..."


class Window(NamedTuple):
    """A step, and what it has started."""

    begin_s: float
    end_s: float
    ran: Sequence[OnGpu]
    next_launch: HostCall | None = None
    """Of what the next step began with."""


def windows(trace: TraceFile) -> list[Window]:
    """Of each step that another one follows; of the only one there is all of it."""
    found = _by_step(trace)
    if not found:
        return [Window(trace.on_gpu[0].begin_s, _end_s(trace.on_gpu), trace.on_gpu)]
    if len(found) == 1:
        ((number, ran),) = found.items()
        begin_s, end_s = trace.steps[number]
        return [Window(min(begin_s, ran[0].begin_s), max(end_s, _end_s(ran)), ran)]
    several = itertools.pairwise(found[number] for number in sorted(found))
    return [Window(own[0].begin_s, later[0].begin_s, own, later[0].launch) for own, later in several]


def _end_s(ran: Sequence[OnGpu]) -> float:
    return max(each.end_s for each in ran)


def _by_step(trace: TraceFile) -> dict[int, list[OnGpu]]:
    """What each step has started, by the number of steps before it."""
    found: dict[int, list[OnGpu]] = defaultdict(list)
    begins = [begin_s for begin_s, _ in trace.steps]
    for each in trace.on_gpu:
        when_s = each.launch.begin_s if each.launch else each.begin_s
        number = bisect.bisect_right(begins, when_s) - 1
        if number >= 0 and when_s < trace.steps[-1][1]:
            found[number].append(each)
    return found


def _parts(window: Window, threads: _Threads) -> Iterator[tuple[StepPart, float]]:
    """Each moment of a step is of one part; what runs beyond its end is of the next step, as it is in the last one."""
    begin_s, end_s, ran, next_launch = window
    launches = [*(each.launch for each in ran), next_launch]
    covered: list[tuple[float, float]] = []
    for work, part in _ON_GPU.items():
        own = ((max(each.begin_s, begin_s), min(each.end_s, end_s)) for each in ran if each.work == work)
        united = _union([*covered, *own])
        yield part, _length(united) - _length(covered)
        covered = united
    for idle_begin_s, idle_end_s in _gaps(covered, begin_s, end_s):
        number = bisect.bisect_left(ran, idle_end_s, key=lambda each: each.begin_s)
        yield from threads.idle(idle_begin_s, idle_end_s, launches[number])


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(span for span in spans if span[0] < span[1]):
        if found and begin_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(end_s, found[-1][1]))
        else:
            found.append((begin_s, end_s))
    return found


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return math.fsum(end_s - begin_s for begin_s, end_s in spans)


def _gaps(spans: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    for span_begin_s, span_end_s in [*spans, (end_s, end_s)]:
        if begin_s < span_begin_s:
            yield begin_s, span_begin_s
        begin_s = max(begin_s, span_end_s)


class _Spans:
    """When a thread waited for data, or for the GPU, and when it did that or was in a call."""

    def __init__(self, calls: Sequence[HostCall]) -> None:
        data, waits = (
            _union((each.begin_s, each.end_s) for each in calls if each.doing == doing) for doing in ("data", "wait")
        )
        self.data, self.waits = data, waits
        self.busy = _union((each.begin_s, each.end_s) for each in calls)


class _Threads:
    """What each thread of the host was doing when."""

    def __init__(self, calls: Sequence[HostCall]) -> None:
        by_thread: dict[object, list[HostCall]] = defaultdict(list)
        for call in calls:
            by_thread[call.thread].append(call)
        self._spans = {thread: _Spans(own) for thread, own in by_thread.items()}

    def idle(self, begin_s: float, end_s: float, launch: HostCall | None) -> Iterator[tuple[StepPart, float]]:
        """The parts of a time in which nothing ran on the GPU. launch: of what ran next.

        Once that was started it is of the launch. Before it, what follows a wait for the GPU that had it run dry is of
        that wait.
        """
        spans = self._spans.get(launch.thread) if launch else None
        if launch is None or spans is None:
            yield "python", end_s - begin_s
            return
        started_s = min(max(begin_s, launch.begin_s), end_s)
        yield "launches", end_s - started_s
        data_s = _within(spans.data, begin_s, started_s)
        yield "data", data_s
        if begin_s < started_s and _holds(spans.waits, begin_s):
            yield "waits", started_s - begin_s - data_s
            return
        busy_s = _within(spans.busy, begin_s, started_s)
        yield "launches", busy_s - data_s
        yield "python", started_s - begin_s - busy_s


def _holds(spans: Sequence[tuple[float, float]], when_s: float) -> bool:
    number = bisect.bisect_right(spans, when_s, key=lambda span: span[0]) - 1
    return number >= 0 and when_s < spans[number][1]


def _within(spans: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """How long of a time some span covers. spans: apart, in order."""
    first = max(0, bisect.bisect_right(spans, begin_s, key=lambda span: span[0]) - 1)
    total_s = 0.0
    for span_begin_s, span_end_s in spans[first:]:
        if span_begin_s >= end_s:
            break
        total_s += max(0.0, min(span_end_s, end_s) - max(span_begin_s, begin_s))
    return total_s


def _of_host(trace: TraceFile) -> StepBound:
    steps = trace.steps or [(min(each.begin_s for each in trace.calls), max(each.end_s for each in trace.calls))]
    of_part: dict[StepPart, list[HostCall]] = {"data": [], "collectives": [], "operators": []}
    for call in trace.calls:
        of_part["data" if call.doing == "data" else "collectives" if is_collective(call) else "operators"].append(call)
    parts_s: dict[StepPart, float] = {}
    covered: list[tuple[float, float]] = []
    left_s = _length(steps)
    for part, calls in of_part.items():
        covered = _union([*covered, *((each.begin_s, each.end_s) for each in calls)])
        now_s = _length(steps) - sum(_within(covered, *step) for step in steps)
        parts_s[part], left_s = left_s - now_s, now_s
    return _bound(
        len(steps), _length(steps), {**parts_s, "python": left_s}, _outermost(trace.calls, steps),
        is_whole=not trace.steps, collective_s=parts_s["collectives"], on_gpu=False,
    )  # fmt: skip


def _outermost(calls: Iterable[HostCall], steps: Sequence[tuple[float, float]]) -> Iterator[tuple[str, float]]:
    """Names and times of the operators in steps that are in no other one of their thread."""
    until_s: dict[object, float] = defaultdict(float)
    begins = [begin_s for begin_s, _ in steps]
    for call in sorted(calls, key=lambda each: (each.begin_s, -each.end_s)):
        if call.doing == "data" or call.begin_s < until_s[call.thread]:
            continue
        until_s[call.thread] = call.end_s
        number = bisect.bisect_right(begins, call.begin_s) - 1
        if number >= 0 and call.begin_s < steps[number][1]:
            yield call.name, call.end_s - call.begin_s
