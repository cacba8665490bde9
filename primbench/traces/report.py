"""What traces tell, as a document: what bounds each, where its time goes, and what two of them differ in."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from primbench.report.document import Document, Note, Section, Table
from primbench.report.step_bound import MUCH, sentence
from primbench.report.step_words import WORDS
from primbench.traces.beside import beside
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.traces.kineto import TraceFile
    from primbench.traces.told import StepBound

MOST_NAMES = 6


def document(traces: Sequence[TraceFile], bounds: Sequence[StepBound]) -> Document:
    """A part of each is a row. Two traces are set side by side, and ranks of one job by who waits."""
    told = [*zip(traces, bounds, strict=True)]
    together = beside(told)
    return Document(
        ", ".join(trace.path for trace in traces),
        Note(together.answer if together else answer(bounds[0])),
        lambda: [*([Section("", [together.table])] if together else []), *_sections(told)],
        rows=lambda: [
            {"trace": trace.path, "rank": trace.rank, "part": part, "time_s": time_s, "step_s": bound.step_s}
            for trace, bound in told
            for part, time_s in bound.parts_s.items()
        ],
        value=[
            {"trace": trace.path, "rank": trace.rank, "gpu": trace.gpu or None, "part": bound.part}
            | {"bound_by": bound.bound_by, **asdict(bound)}
            for trace, bound in told
        ],
    )


def _sections(told: Sequence[tuple[TraceFile, StepBound]]) -> Iterator[Section]:
    """Of one trace the answer is its sentence."""
    for trace, bound in told:
        parts = [_where(trace, bound), _largest(bound)]
        yield Section(trace.path, [Note(answer(bound)), *parts]) if len(told) > 1 else Section("", parts)


def answer(bound: StepBound) -> str:
    """What bounds a step."""
    it = "what was traced" if bound.is_whole else "this step"
    largest = next(((each.name, each.time_s) for each in bound.largest), ("nothing", 0.0))
    return sentence(bound.parts_s, bound.step_s, largest, ways=bound.ways, on_gpu=bound.on_gpu, it=it)


def _where(trace: TraceFile, bound: StepBound) -> Table:
    rows = [[part, time_s, _share(time_s, bound), WORDS[part].what] for part, time_s in bound.parts_s.items()]
    title = "what was traced" if bound.is_whole else f"a step, the median of {bound.steps}"
    shared = [*filter(None, [trace.gpu]), *([] if trace.rank is None else [f"rank {trace.rank}"])]
    table = Table.of_rows(
        title, ["", "time", "share", "while"], rows, [*map(Note, cautions(trace, bound))],
        formats={"time": format_time, "share": format_percent},
    )  # fmt: skip
    return replace(table, shared=shared)


def _share(time_s: float, bound: StepBound) -> float | None:
    """Of a step; None of one that took no time."""
    return time_s / bound.step_s if bound.step_s else None


def cautions(trace: TraceFile, bound: StepBound) -> Iterator[str]:
    """What to know of a trace before its numbers are believed."""
    if trace.untimed:
        yield (
            f"{trace.untimed} events of the trace are left out, as their times cannot be: no numbers, an end before "
            "the begin, or more than 30 days"
        )
    if trace.unseen:
        yield (
            f"{trace.unseen} calls of a device's driver started what the trace does not have: what its kernels take is "
            "not known, and activities=[CPU, CUDA] records those of a GPU"
        )
    if bound.on_gpu:
        yield (
            f"{bound.launches:.0f} started on the GPU, which was waited for {bound.waits:.0f} times; a profiler makes "
            "the host slower, so that without it launches and Python take less than here"
        )
    mean_s = sum(bound.times_s) / bound.steps
    if abs(mean_s - bound.step_s) > MUCH * bound.step_s:
        scatter = f"{format_time(min(bound.times_s))} to {format_time(max(bound.times_s))}"
        yield f"steps took {scatter}, on the mean {format_time(mean_s)}: what is told is of the median one"
    if bound.is_whole:
        yield "no steps are marked: give the profiler a schedule, and call its step() after each, for parts of a step"


def _largest(bound: StepBound) -> Table:
    rows = [[each.calls, each.time_s, _share(each.time_s, bound), each.name] for each in bound.largest[:MOST_NAMES]]
    left_s = sum(each.time_s for each in bound.largest[MOST_NAMES:])
    notes = [Note(f"{len(bound.largest) - MOST_NAMES} more take {format_time(left_s)} together")] if left_s else []
    what = "what ran on the GPU" if bound.on_gpu else "operators that no other one called"
    return Table.of_rows(
        what, ["calls", "time", "share", "name"], rows, notes,
        formats={"calls": "{:.4g}".format, "time": format_time, "share": format_percent},
    )  # fmt: skip
