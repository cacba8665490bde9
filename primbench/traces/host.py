"""What bounds the steps of a trace that has nothing of a GPU: operators, data, collectives, or none of these.

A profiler takes its own time for each event, which makes steps of many short operators longer by a third and more. No
more of it is in an event than operators that call others have for themselves, for each of these: steps without that are
told as what may be, too.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING

from primbench import stats
from primbench.measurement.spans import holds, length, union, within
from primbench.traces.kineto import working
from primbench.traces.told import length_of, middle, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from primbench.report.step_words import StepPart
    from primbench.traces.kineto import Doing, HostCall, TraceFile
    from primbench.traces.told import StepBound

    _Spans = Mapping[StepPart, list[tuple[float, float]]]

_PARTS: Mapping[Doing, StepPart] = {
    "data": "data", "wait": "operators", "call": "operators", "ranks": "collectives", "collective": "collectives",
}  # fmt: skip
"""Of what the host does. It waits for no GPU in a trace that has none."""


def of_host(trace: TraceFile) -> StepBound:
    """Its steps, or all of it as one."""
    steps = trace.steps or [(min(each.begin_s for each in trace.calls), max(each.end_s for each in trace.calls))]
    spans_of = working(trace.calls)
    spans = _spans(trace.calls, spans_of)
    shared, collectives = _shared(spans, steps), union(spans.get("collectives", []))
    own = [call for call in trace.calls if call.doing in ("data", "call") and spans_of(call)]
    inmost = middle(steps)
    return told(
        steps, [shared, _unprofiled(shared, own, steps), _shared({**spans, "collectives": _waits(trace)}, steps)],
        [(call.name, length(spans_of(call))) for call in _outermost(own) if holds(inmost, call.begin_s)],
        is_whole=not trace.steps, on_gpu=False,
        collective_s=sum(within(collectives, *step) for step in steps) / len(steps),
    )  # fmt: skip


def _waits(trace: TraceFile) -> list[tuple[float, float]]:
    """When a thread is known to wait for a collective: beside others Python may be at work."""
    return [(call.begin_s, call.end_s) for call in trace.calls if call.doing == "ranks"]


def _shared(spans: _Spans, steps: Sequence[tuple[float, float]]) -> list[dict[StepPart, float]]:
    """What each step's time is of: each moment of the first of these parts that was under way in some thread."""
    shared: list[dict[StepPart, float]] = [{} for _ in steps]
    left_s = [*map(length_of, steps)]
    covered: list[tuple[float, float]] = []
    parts: tuple[StepPart, ...] = ("data", "operators", "collectives")
    for part in parts:
        covered = union([*covered, *spans.get(part, [])])
        for number, step in enumerate(steps):
            now_s = length_of(step) - within(covered, *step)
            shared[number][part], left_s[number] = left_s[number] - now_s, now_s
    return [parts_s | {"python": python_s} for parts_s, python_s in zip(shared, left_s, strict=True)]


def _spans(calls: Iterable[HostCall], spans_of: Callable[[HostCall], list[tuple[float, float]]]) -> _Spans:
    """When each part was under way."""
    found: defaultdict[StepPart, list[tuple[float, float]]] = defaultdict(list)
    for call in calls:
        found[_PARTS[call.doing]] += spans_of(call)
    return found


def _unprofiled(
    shared: Iterable[Mapping[StepPart, float]], calls: Sequence[HostCall], steps: Sequence[tuple[float, float]]
) -> list[dict[StepPart, float]]:
    """Without the most that the profiler may have taken for events: for those within an operator in it, for others
    between them.
    """
    event_s = _event_s(calls)
    outermost = _counted(_outermost(calls), steps)
    return [
        dict(parts_s)
        | {
            "operators": max(0.0, parts_s["operators"] - (all_events - outer) * event_s),
            "python": max(0.0, parts_s["python"] - outer * event_s),
        }
        for parts_s, all_events, outer in zip(shared, _counted(calls, steps), outermost, strict=True)
    ]


def _counted(calls: Iterable[HostCall], steps: Sequence[tuple[float, float]]) -> list[int]:
    """How many begin in each step."""
    begins = sorted(call.begin_s for call in calls)
    return [bisect.bisect_left(begins, end_s) - bisect.bisect_left(begins, begin_s) for begin_s, end_s in steps]


def _event_s(calls: Iterable[HostCall]) -> float:
    """What half of the operators that call others have for themselves, for each of these: the profiler's time for an
    event is in it. 0 where none calls another.
    """
    under_way: dict[object, list[list[float]]] = defaultdict(list)  # of each its end, own time, and how many it calls
    seen: list[list[float]] = []
    for call in sorted(calls, key=lambda each: (each.begin_s, -each.end_s)):
        own = under_way[call.thread]
        while own and own[-1][0] <= call.begin_s:
            own.pop()
        if own:
            own[-1][1] -= call.end_s - call.begin_s
            own[-1][2] += 1
        own.append([call.end_s, call.end_s - call.begin_s, 0])
        seen.append(own[-1])
    each_s = [max(0.0, own_s) / several for _, own_s, several in seen if several]
    return stats.quantile(each_s, 0.5) if each_s else 0.0


def _outermost(calls: Iterable[HostCall]) -> Iterator[HostCall]:
    """The operators that are in no other one of their thread."""
    until_s: dict[object, float] = defaultdict(float)
    for call in sorted(calls, key=lambda each: (each.begin_s, -each.end_s)):
        if call.doing == "call" and call.begin_s >= until_s[call.thread]:
            until_s[call.thread] = call.end_s
            yield call
