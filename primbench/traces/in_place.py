"""Parts of a captured step as the script itself runs them, by a trace of its own steps, beside what they take alone."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.devices import Device
from primbench.measurement.spans import holds, length
from primbench.report.document import Document, Note, Section, Table
from primbench.report.step_bound import bound_by, is_told, told_parts, ways_of
from primbench.report.step_words import said
from primbench.results.step_parts import VIEWS, Part, by_case, measured_part
from primbench.spec.captured import PARTS
from primbench.traces.bound import bound_of, windows
from primbench.traces.kineto import working
from primbench.traces.report import answer, cautions
from primbench.traces.told import middle, shown
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from primbench.report.step_words import StepPart
    from primbench.results.record import Record
    from primbench.results.step_explained import Explained
    from primbench.traces.kineto import HostCall, OnGpu, TraceFile
    from primbench.traces.told import StepBound

    _Ran = tuple[str, int, float]

MOST_NAMES = 20
_SEEN_AS: Mapping[StepPart, StepPart] = {"faults": "operators", "ranks": "collectives"}
"""What a trace counts as something else: pages are first touched within an operator, a rank is waited for in one."""
_RUN_BY_THREADS: tuple[StepPart, ...] = ("operators", "launches", "python")
"""In which a thread may wait for a CPU, which a trace does not know."""


@dataclass(frozen=True)
class InPlace:
    """What a name takes in a step of a trace."""

    calls: float
    """How often it is called in a step, the median one."""
    time_s: float
    """What all of these take, on the GPU where the trace is of one."""


@dataclass(frozen=True)
class NamedPart:
    """The parts of a name, alone and in place."""

    name: str
    calls: int | None
    """How many a step has; None of what is no part."""
    alone_s: float | None
    """What all of them take as they were measured; None where one was not."""
    in_place: InPlace | None
    """None where the trace has none of the name."""
    reason: str = ""
    """Why ``alone_s`` is not known."""


def joined(
    document: Document, title: str, explained: Explained, records: Sequence[Record], trace: TraceFile
) -> Document:
    """The document of one step with what a trace of its script tells of it. records: of its parts."""
    bound = bound_of(trace)
    on_gpu = Device.parse(explained.device).is_gpu
    parts = [measured_part(each) for each in by_case(records, PARTS)]
    parts += [Part("", each.name, each.calls, None, None, each.reason, []) for each in explained.in_step]
    found = named_parts([each for each in parts if each.row != VIEWS], trace)
    notes = [Note(f"{trace.path}: {answer(bound)}")]
    parts_s, ways = as_traced(told_parts(explained)), [*map(as_traced, ways_of(explained))]
    never_waits = explained.timed is not None and explained.timed.never_waits
    alone = bound_by(parts_s, ways, on_gpu=on_gpu, never_waits=never_waits)
    if is_told(explained):
        notes.append(Note(_same(alone, bound.bound_by)))
    table = _table(found, trace, bound)
    sections = document.sections
    value: dict[str, object] = {
        "trace": trace.path, "part": bound.part, "part_alone": next(iter(alone), None), "bound_by": bound.bound_by,
        "bound_by_alone": alone, "step_s": bound.step_s, "parts": found,
    }  # fmt: skip
    assert isinstance(document.value, list)
    return replace(
        document,
        sections=lambda: [*sections(), Section("", [*notes, table])],
        value=[{"step": title} | asdict(explained) | {"in_place": value}],
    )


def as_traced(parts_s: Mapping[StepPart, float]) -> dict[StepPart, float]:
    """The same time as a trace tells it apart: a wait for a CPU is of what its thread was in, as that is shared."""
    found: dict[StepPart, float] = defaultdict(float)
    for part, time_s in parts_s.items():
        found[_SEEN_AS.get(part, part)] += time_s
    ran_s = {part: found[part] for part in _RUN_BY_THREADS if found.get(part, 0.0) > 0}
    if ran_s:
        waited_s, all_s = found.pop("queue", 0.0), math.fsum(ran_s.values())
        for part, time_s in ran_s.items():
            found[part] += waited_s * time_s / all_s
    return dict(found)


def _same(alone: Sequence[StepPart], in_place: Sequence[StepPart]) -> str:
    """Whether both find the same bound, of parts as a trace tells them apart, or do not exclude each other."""
    if {*alone} == {*in_place}:
        return "The parts, measured alone, say the same of what bounds it, as far as a trace tells."
    one, other = (said(parts, "it") if parts else "most of it is unexplained" for parts in (alone, in_place))
    both = [part for part in in_place if part in alone]
    may_be = f" Neither excludes that {said(both, 'it')}." if both else ""
    return f"By the parts, measured alone, {one}; by the trace {other}.{may_be}"


def _table(found: Sequence[NamedPart], trace: TraceFile, bound: StepBound) -> Table:
    rows = [
        [each.calls, each.in_place and each.in_place.calls, each.alone_s, _in_place_s(each), _ratio(each), each.name]
        for each in found[:MOST_NAMES]
    ]
    left = found[MOST_NAMES:]
    notes = [f"{len(left)} more take {format_time(sum(_in_place_s(each) or 0.0 for each in left))} in place"] * bool(
        left
    )
    notes += cautions(trace, bound)
    notes += [f"{each.name}: not measured alone: {each.reason}" for each in found if each.reason]
    formats = {"alone": format_time, "in place": format_time, "ratio": "{:.3f}".format, "there": "{:.4g}".format}
    how = "the trace as a whole" if bound.is_whole else f"a step, the median of a trace of {bound.steps}"
    return Table.of_rows(
        "its parts alone and in place", ["calls", "there", "alone", "in place", "ratio", "name"], rows,
        [*map(Note, notes)], how=how, formats=formats,
    )  # fmt: skip


def _in_place_s(part: NamedPart) -> float | None:
    return part.in_place.time_s if part.in_place else None


def _ratio(part: NamedPart) -> float | None:
    """Of the time in place to that alone."""
    return part.in_place.time_s / part.alone_s if part.in_place and part.alone_s else None


def named_parts(parts: Sequence[Part], trace: TraceFile) -> list[NamedPart]:
    """By their names, and what else ran on a GPU by its kernels', the longest first."""
    by_name: defaultdict[str, list[Part]] = defaultdict(list)
    for each in parts:
        by_name[each.label].append(each)
    ran, others = in_place(trace, by_name)
    found = [_named(name, own, ran.get(name)) for name, own in by_name.items()]
    found += [NamedPart(name, None, None, each) for name, each in others.items()]
    return sorted(found, key=lambda each: -max(each.alone_s or 0.0, _in_place_s(each) or 0.0))


def _named(name: str, parts: Sequence[Part], ran: InPlace | None) -> NamedPart:
    reason = next((each.reason for each in parts if each.reason), "")
    alone_s = None if reason else sum(each.all_s for each in parts)
    return NamedPart(name, sum(each.calls for each in parts), alone_s, ran, reason)


def in_place(trace: TraceFile, names: Collection[str]) -> tuple[dict[str, InPlace], dict[str, InPlace]]:
    """What each of these names takes; and what else ran on a GPU, by the names of kernels.

    Of operators within each other the outermost that has one of the names counts. A kernel on a GPU is of the operator
    that has started it, or has the name itself, as one that a CUDA graph replays.
    """
    operators = _outermost(trace.calls, names)
    return _on_gpu(trace, names, operators) if trace.on_gpu else (_on_host(trace, operators), {})


def _on_host(trace: TraceFile, operators: Mapping[object, list[HostCall]]) -> dict[str, InPlace]:
    steps = middle(trace.steps) or [(-math.inf, math.inf)]
    inside = (each for several in operators.values() for each in several if holds(steps, each.begin_s))
    spans_of = working(trace.calls)
    spans = ((each, spans_of(each)) for each in inside)
    return _summed(((_short(each.name), id(each), length(own)) for each, own in spans if own), len(steps))


def _on_gpu(
    trace: TraceFile, names: Collection[str], operators: Mapping[object, list[HostCall]]
) -> tuple[dict[str, InPlace], dict[str, InPlace]]:
    own: list[_Ran] = []
    others: list[_Ran] = []
    several = middle(windows(trace))
    for each in (ran for window in several for ran in window.ran):
        time_s = each.end_s - each.begin_s
        if operator := _around(each, operators):
            own.append((_short(operator.name), id(operator), time_s))
        elif each.name in names:
            own.append((each.name, id(each), time_s))
        else:
            others.append((shown(each.name), id(each), time_s))
    return _summed(own, len(several)), _summed(others, len(several))


def _short(name: str) -> str:
    """Without the namespace."""
    return name.rpartition("::")[2]


def _outermost(calls: Iterable[HostCall], names: Collection[str]) -> Mapping[object, list[HostCall]]:
    """By thread, in their order."""
    found: defaultdict[object, list[HostCall]] = defaultdict(list)
    for call in sorted(calls, key=lambda each: (each.begin_s, -each.end_s)):
        own = found[call.thread]
        if _short(call.name) in names and not (own and call.begin_s < own[-1].end_s):
            own.append(call)
    return found


def _around(ran: OnGpu, operators: Mapping[object, list[HostCall]]) -> HostCall | None:
    """The operator that has started it."""
    if ran.launch is None:
        return None
    own = operators.get(ran.launch.thread, [])
    number = bisect.bisect_right(own, ran.launch.begin_s, key=lambda call: call.begin_s) - 1
    return own[number] if number >= 0 and ran.launch.begin_s < own[number].end_s else None


def _summed(ran: Iterable[_Ran], steps: int) -> dict[str, InPlace]:
    """Of names, with what tells their calls apart, and times."""
    calls: defaultdict[str, set[int]] = defaultdict(set)
    times_s: defaultdict[str, float] = defaultdict(float)
    for name, call, time_s in ran:
        calls[name].add(call)
        times_s[name] += time_s
    return {name: InPlace(len(calls[name]) / steps, times_s[name] / steps) for name in times_s}
