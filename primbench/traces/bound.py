"""What bounds the steps of a trace: how long the GPU computed, and what it waited for while it did not.

A step on a GPU lasts from when it begins the first thing that the step has started to when it begins that of the next.
Within, each moment belongs to one part: a kernel; else a collective; else a copy between host and GPU; else nothing
ran there, and the part is what the thread was doing that started what ran next, until it started that. On a CPU a step
lasts as long as the script's, and its moments are those in which some thread waited for data; else was in an operator;
else a collective was under way, or waited for; or none of these was.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from primbench.measurement.spans import holds, length, union, within
from primbench.traces.host import of_host
from primbench.traces.kineto import working
from primbench.traces.told import middle, summed, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.report.step_words import StepPart
    from primbench.traces.kineto import HostCall, OnGpu, TraceFile
    from primbench.traces.told import StepBound

_ON_GPU: dict[str, StepPart] = {"kernel": "kernels", "collective": "collectives", "copy": "copies"}


def bound_of(trace: TraceFile) -> StepBound:
    """What its steps have in common."""
    return _of_gpu(trace) if trace.on_gpu else of_host(trace)


def _of_gpu(trace: TraceFile) -> StepBound:
    several = windows(trace)
    threads = _Threads(trace.calls)
    parts_s = [summed(_parts(window, threads)) for window in several]
    ran = [each for window in middle(several) for each in window.ran]
    collectives = (each.end_s - each.begin_s for window in several for each in window.ran if each.work == "collective")
    return told(
        several, [parts_s], [(each.name, each.end_s - each.begin_s) for each in ran], is_whole=not trace.steps,
        launches=len(ran), waits=_waits(trace.calls, several[0].begin_s, several[-1].end_s) / len(several),
        collective_s=sum(collectives) / len(several), on_gpu=True,
    )  # fmt: skip


def _waits(calls: Iterable[HostCall], begin_s: float, end_s: float) -> int:
    return sum(call.doing == "wait" and begin_s <= call.begin_s < end_s for call in calls)


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
        united = union([*covered, *own])
        yield part, length(united) - length(covered)
        covered = united
    for idle_begin_s, idle_end_s in _gaps(covered, begin_s, end_s):
        number = bisect.bisect_left(ran, idle_end_s, key=lambda each: each.begin_s)
        yield from threads.idle(idle_begin_s, idle_end_s, launches[number])


def _gaps(spans: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    for span_begin_s, span_end_s in [*spans, (end_s, end_s)]:
        if begin_s < span_begin_s:
            yield begin_s, span_begin_s
        begin_s = max(begin_s, span_end_s)


class _Spans:
    """When a thread waited for data, for the GPU or for a collective, and when it did that or was in a call."""

    def __init__(self, calls: Sequence[HostCall]) -> None:
        self.data, self.waits, ranks = (
            union((each.begin_s, each.end_s) for each in calls if each.doing == doing)
            for doing in ("data", "wait", "ranks")
        )
        spans_of = working(calls)
        by_host = (each for each in calls if each.doing not in ("ranks", "collective"))
        self.busy = union(span for each in by_host for span in spans_of(each))
        self.all = union([*self.busy, *ranks])


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
        data_s = within(spans.data, begin_s, started_s)
        yield "data", data_s
        if begin_s < started_s and holds(spans.waits, begin_s):
            yield "waits", started_s - begin_s - data_s
            return
        busy_s, all_s = (within(each, begin_s, started_s) for each in (spans.busy, spans.all))
        yield "launches", busy_s - data_s
        yield "collectives", all_s - busy_s
        yield "python", started_s - begin_s - all_s
