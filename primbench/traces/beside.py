"""Traces side by side: two of them by their parts, and the ranks of a job by who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench.report.document import Note, Table
from primbench.report.step_words import WORDS, said
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.report.step_words import StepPart
    from primbench.traces.kineto import TraceFile
    from primbench.traces.told import StepBound

LATE = 0.1
"""Of a step: by so much less than others does a rank wait that all wait for."""


class TracesBeside(NamedTuple):
    """Of several traces together."""

    answer: str
    table: Table


def beside(told: Sequence[tuple[TraceFile, StepBound]]) -> TracesBeside | None:
    """Of ranks of one job who waits, and of two traces what takes longer in the second one; None of others."""
    if ranks := _ranks_of_a_job([trace for trace, _ in told]):
        return _ranks(sorted(zip(ranks, (bound for _, bound in told), strict=True), key=lambda pair: pair[0]))
    return _two(told) if len(told) == 2 else None


def _ranks_of_a_job(traces: Sequence[TraceFile]) -> list[int]:
    """Of each trace the rank; none where they are not of one job."""
    ranks = [trace.rank for trace in traces if trace.rank is not None]
    is_one = len(traces) > 1 and len({*ranks}) == len(traces) and len({trace.world_size for trace in traces}) == 1
    return ranks if is_one else []


def _ranks(told: Sequence[tuple[int, StepBound]]) -> TracesBeside:
    """Who comes last to collectives, which all others wait in. told: each rank's."""
    rows: list[list[object]] = [
        [
            rank,
            bound.step_s,
            bound.collective_s,
            bound.parts_s.get("kernels", 0.0),
            _bounds(bound),
        ]
        for rank, bound in told
    ]
    formats = dict.fromkeys(("step", "collectives", "kernels"), format_time)
    table = Table.of_rows("", ["rank", "step", "collectives", "kernels", ""], rows, formats=formats)
    (last, of_last), (_, of_next), *_ = sorted(told, key=lambda pair: pair[1].collective_s)
    if of_next.collective_s - of_last.collective_s <= LATE * of_last.step_s:
        return TracesBeside("No rank is waited for: all are as long in collectives.", table)
    own, others = format_time(of_last.collective_s), format_time(of_next.collective_s)
    waits = f"{own} a step in collectives, where others wait {others} and more"
    return TracesBeside(f"Rank {last} comes last: it is {waits}.", table)


def _bounds(bound: StepBound) -> str:
    return said(bound.bound_by, "it") if bound.bound_by else ""


def _two(told: Sequence[tuple[TraceFile, StepBound]]) -> TracesBeside:
    """What takes longer in the second one."""
    (one, before), (other, after) = told
    parts = sorted(
        {*before.parts_s, *after.parts_s},
        key=lambda part: -abs(after.parts_s.get(part, 0) - before.parts_s.get(part, 0)),
    )
    rows: list[list[object]] = [
        [part, before.parts_s.get(part, 0.0), after.parts_s.get(part, 0.0), _more_s(part, before, after)]
        for part in parts
    ]
    rows.append(["step", before.step_s, after.step_s, after.step_s - before.step_s])
    formats = dict.fromkeys(("first", "second", "more"), format_time)
    most, more_s = parts[0], _more_s(parts[0], before, after)
    words = f"one trace each, so it may be the moment: whether two places differ in {most} is told by"
    study = Note(words, command=[WORDS[most].study])
    table = Table.of_rows("", ["", "first", "second", "more"], rows, [study], formats=formats)
    step_s = after.step_s - before.step_s
    than = f"{'longer' if step_s > 0 else 'shorter'} than that of {one.path}, of {format_time(before.step_s)}"
    part = f"{'+' if more_s > 0 else '-'}{format_time(abs(more_s))} in {most}"
    return TracesBeside(f"The step of {other.path} is {format_time(abs(step_s))} {than}: {part}.", table)


def _more_s(part: StepPart, before: StepBound, after: StepBound) -> float:
    return after.parts_s.get(part, 0.0) - before.parts_s.get(part, 0.0)
