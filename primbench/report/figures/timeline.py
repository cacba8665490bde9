"""Timelines: what a case used while it ran, a lane for each quantity, from 0 up to its peak."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from primbench.measurement.over_time import SERIES
from primbench.report.document import Column, Figure, Note, Table
from primbench.report.over_time import notes_of, shown, words_of
from primbench.report.svg_plot import Axis, add_curve, add_rule, add_ticks_below, add_words, picture, time_ticks
from primbench.spec.naming import name_of
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from primbench.measurement.over_time import Series
    from primbench.results.record import Record

LANE, CURVE = 66, 40  # pixels down
WINDOWS = 120
MOST_CASES = 20


def timelines(records: Sequence[Record]) -> Iterator[Figure]:
    """Of the first cases that were sampled over time."""
    sampled = (record for record in records if record.measurement and record.measurement.over_time)
    for record in itertools.islice(sampled, MOST_CASES):
        assert record.measurement is not None
        assert record.measurement.over_time is not None
        found = record.measurement.over_time
        lanes = {name: series for name in SERIES if (series := found.series.get(name))}
        if lanes:
            yield _timeline(record, lanes, record.measurement.phases_s, [*map(Note, notes_of(found))])


def _timeline(
    record: Record, lanes: Mapping[str, Series], phases_s: Mapping[str, float], notes: Sequence[Note]
) -> Figure:
    end_s = max(series.times_s[-1] for series in lanes.values()) or 1.0
    process = f", process {record.case.process}" if record.case.process else ""
    title = f"{name_of(record.case)}{process}: over time"
    longest = max(len(series.times_s) for series in lanes.values())
    words = f"Each lane goes from 0 to its peak; upright lines are where a phase ends: {_phases(phases_s)}."
    if longest > WINDOWS:
        words += f" Of {longest} samples, the largest of each of {WINDOWS} windows of time is drawn."
    windows = {name: windowed(series, end_s) for name, series in lanes.items()}
    numbers = _numbers(windows, lanes, end_s, notes)
    return Figure(title, words, _picture(windows, lanes, phases_s, (title, words)), numbers)


def _phases(phases_s: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {format_time(seconds)}" for name, seconds in phases_s.items()) or "none are known"


def windowed(series: Series, end_s: float) -> dict[float, float]:
    """Seconds from the start -> value: all samples, or of too many the largest in each window of time."""
    if len(series.times_s) <= WINDOWS:
        return dict(zip(series.times_s, series.values, strict=True))
    found: dict[float, float] = {}
    for time_s, value in zip(series.times_s, series.values, strict=True):
        window = end_s * min(WINDOWS - 1, int(WINDOWS * time_s / end_s)) / WINDOWS
        found[window] = max(value, found.get(window, value))
    return found


def _picture(
    windows: Mapping[str, Mapping[float, float]],
    lanes: Mapping[str, Series],
    phases_s: Mapping[str, float],
    said: tuple[str, str],
) -> Element:
    height = LANE * len(windows)
    svg = picture(height + 22, *said)
    axis = Axis(0, max(max(found) for found in windows.values()) or 1.0, 2, 98)
    add_ticks_below(svg, axis, time_ticks(axis, 5), 0, height)
    for end_s in itertools.accumulate(phases_s.values()):
        if end_s < axis.high:
            add_rule(svg, (axis.at(end_s), axis.at(end_s)), (0, height), "one dashed faint")
    for number, (name, found) in enumerate(windows.items()):
        top, series = number * LANE, lanes[name]
        add_words(svg, 0, top + 15, words_of(name), "strong halo")
        add_words(svg, 100, top + 15, f"peak {shown(name, series.peak)}", "quiet halo", anchor="end")
        down = Axis(0, series.peak or 1.0, top + 20 + CURVE, top + 20)
        points = [(axis.at(time_s), down.at(value)) for time_s, value in found.items()]
        add_rule(svg, (2, 98), (top + 20 + CURVE, top + 20 + CURVE), "grid")
        add_curve(svg, points, f"s{number % 6}", height=CURVE, top=top + 20)
    return svg


def _numbers(
    windows: Mapping[str, Mapping[float, float]], lanes: Mapping[str, Series], end_s: float, notes: Sequence[Note]
) -> Table:
    times = sorted({time_s for found in windows.values() for time_s in found})
    peaks = [f"{words_of(name)}: peak {shown(name, lanes[name].peak)}" for name in windows]
    columns = [
        Column(words_of(name), [found.get(time_s) for time_s in times], partial(shown, name))
        for name, found in windows.items()
    ]
    title = f"Over {format_time(end_s)}; {', '.join(peaks)}"
    return Table(title, [Column("from the start", times, format_time), *columns], notes)
