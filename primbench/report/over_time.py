"""What cases used while they ran: a table a case, its curves drawn in characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.measurement.over_time import SERIES, split_unit
from primbench.report.columns import FORMATS
from primbench.report.document import Note, Table
from primbench.spec.naming import name_of
from primbench.units import format_bytes, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.measurement.over_time import OverTime, Series
    from primbench.results.record import Record

LEVELS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # of a curve, in characters


def tables(records: Sequence[Record]) -> list[Table]:
    """One for each case that was sampled over time."""
    return [
        _table(record, found, record.measurement.phases_s)
        for record in records
        if record.measurement and (found := record.measurement.over_time)
    ]


def _table(record: Record, found: OverTime, phases_s: dict[str, float]) -> Table:
    end_s = max((series.times_s[-1] for series in found.series.values()), default=0.0)
    rows = [
        [words_of(name), *(shown(name, value) for value in (series.mean, series.peak)), curve(series, end_s)]
        for name in SERIES
        if (series := found.series.get(name))
    ]
    phases = ", ".join(f"{name} {format_time(time_s)}" for name, time_s in phases_s.items())
    process = f", process {record.case.process}" if record.case.process else ""
    return Table.of_rows(
        f"{name_of(record.case)}{process}, over {format_time(end_s)}",
        ["", "mean", "peak", f"from 0 to the peak, {format_time(end_s / WIDTH)} a character"],
        rows,
        [*map(Note, notes_of(found)), Note(f"phases: {phases}")],
    )


def notes_of(found: OverTime) -> Iterator[str]:
    every, cost = format_time(found.interval_s), format_time(found.cost_s)
    yield f"sampled every {every} or less often by a process beside it, which took {cost} of CPU time each"
    if found.host_peak_bytes is not None:
        yield f"host memory of the process alone, at most: {format_bytes(found.host_peak_bytes)}"
    if found.gpu_allocated_peak_bytes is not None:
        yield f"GPU memory handed out by torch's allocator, at most: {format_bytes(found.gpu_allocated_peak_bytes)}"
    for name in (*SERIES, "host_peak_bytes"):
        if name in found.missing:
            yield f"{words_of(name)} unknown: {found.missing[name]}"


def curve(series: Series, end_s: float) -> str:
    """From the start of the case to ``end_s``: in each character the largest sample of its time, or the one before."""
    largest: dict[int, float] = {}
    for time_s, value in zip(series.times_s, series.values, strict=True):
        place = min(WIDTH - 1, int(WIDTH * time_s / end_s)) if end_s > 0 else 0
        largest[place] = max(value, largest.get(place, value))
    drawn, value = "", series.values[0]
    for place in range(WIDTH):
        value = largest.get(place, value)
        drawn += LEVELS[_level(value, series.peak)]
    return drawn


def _level(value: float, peak: float) -> int:
    return min(len(LEVELS) - 1, max(0, int(len(LEVELS) * value / peak))) if peak > 0 else 0


def words_of(name: str) -> str:
    return split_unit(name)[0].replace("_", " ")


def shown(name: str, value: float) -> str:
    unit = split_unit(name)[1]
    return FORMATS[unit](value) if unit in FORMATS else format_rate(value, "B/s")
