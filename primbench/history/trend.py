"""Trends: a series as a picture of its points, with the levels before and after each change; and many as small ones."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from primbench.compare.shown import shown_ratio
from primbench.history.headline import how_much, name_of_series, tied, when
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import (
    EXACT,
    Axis,
    add_curve,
    add_mark,
    add_rule,
    add_ticks_below,
    add_ticks_left,
    add_words,
    picture,
    spread,
    time_ticks,
)
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.history.changes import SeriesHistory
    from primbench.history.series import RunPoint

MOST_MARKS = 150
MOST_SMALL = 100
MOST_PLACES = 200  # of a curve, which a screen shows no more of
HEIGHT, TOP, LEFT = 150.0, 8.0, 12.0
ROW, NAME = 46.0, 15.0  # pixels down


def trend(found: SeriesHistory) -> Figure:
    """Of one series; points stand at equal distances, so that months without one take no room."""
    series = found.series
    title = name_of_series(series)
    said = [f"{how_much(each.ratio)} since {when(each)}: {tied(each)}." for each in found.changes]
    words = " ".join(["A point a run, in the order of time, at equal distances.", *said])
    return Figure(title, words, _picture(found, title, words), _numbers(found))


def _picture(found: SeriesHistory, title: str, words: str) -> Element:
    points = found.series.points
    bottom = TOP + HEIGHT
    svg = picture(bottom + 22, title, words)
    across = Axis(0, max(len(points) - 1, 1), LEFT, 98)
    down = Axis(*spread([each.estimate_s for each in points]), bottom, TOP)
    add_ticks_left(svg, down, time_ticks(down, 4), (0, 100))
    add_ticks_below(svg, across, _days(points), TOP, bottom)
    add_curve(svg, _thinned(points, across, down), "s4 faint", height=bottom)
    if len(points) <= MOST_MARKS:
        for number, each in enumerate(points):
            add_mark(svg, across.at(number), down.at(each.estimate_s), "circle", "s0 faint", tip=_tip(each))
    for (first, last), level in _levels(found):
        add_rule(svg, (across.at(first), across.at(last)), (down.at(level), down.at(level)), "s0 ticked")
    for change in found.changes:
        look = "slower" if change.ratio > 1 else "faster"
        at = across.at(change.at.first - 0.5)
        add_rule(svg, (at, at), (TOP, bottom), f"{look} ticked dashed")
        add_words(svg, at - 1, TOP + 10, shown_ratio(change.ratio), f"{look} halo", anchor="end")
    return svg


def _levels(found: SeriesHistory) -> list[tuple[tuple[int, int], float]]:
    """First and last point between changes, and their median time."""
    points = found.series.points
    ends = [0, *(each.at.first for each in found.changes), len(points)]
    return [((first, end - 1), median(each.estimate_s for each in points[first:end])) for first, end in pairwise(ends)]


def _days(points: Sequence[RunPoint], most: int = 4) -> list[tuple[float, str]]:
    count = min(most, len(points))
    numbers = dict.fromkeys(round(each * (len(points) - 1) / max(count - 1, 1)) for each in range(count))
    return [(number, f"{points[number].time:%Y-%m-%d}") for number in numbers]


def _thinned(points: Sequence[RunPoint], across: Axis, down: Axis) -> list[tuple[float, float]]:
    every = math.ceil(len(points) / MOST_PLACES)
    numbers = [*range(0, len(points), every)]
    found = [(across.at(number), down.at(points[number].estimate_s)) for number in numbers]
    return found if len(found) > 1 else found * 2


def _tip(point: RunPoint) -> str:
    labels = "".join(f" {name} {value}" for name, value in point.labels.items())
    return f"{point.time:%Y-%m-%d %H:%M} {format_time(point.estimate_s, noise=EXACT)}{labels}"


def _numbers(found: SeriesHistory) -> Table:
    points = found.series.points
    ratios = {each.at.first: each.ratio for each in found.changes}
    return Table(
        "",
        [
            Column("time", [f"{each.time:%Y-%m-%d %H:%M}" for each in points]),
            Column("median", [each.estimate_s for each in points], _exact),
            Column("change", [ratios.get(number) for number, _ in enumerate(points)], shown_ratio),
            Column("session", [each.session for each in points]),
            Column("labels", [", ".join(f"{name} {value}" for name, value in each.labels.items()) for each in points]),
            Column("file", [each.file for each in points]),
        ],
    )


def _exact(seconds: float) -> str:
    return format_time(seconds, noise=EXACT)


def small(histories: Sequence[SeriesHistory]) -> Figure:
    """All series, those that changed first, each on a scale of its own."""
    ordered = sorted(histories, key=lambda each: not each.changes)
    drawn = ordered[:MOST_SMALL]
    title = "All series"
    words = "Each from its least to its most; an upright line is a change."
    if len(drawn) < len(ordered):
        words += f" Drawn are {len(drawn)} of {len(ordered)}; `--json` has all."
    svg = picture(ROW * len(drawn), title, words)
    for number, each in enumerate(drawn):
        _add_small(svg, each, ROW * number)
    return Figure(title, words, svg, _summary(ordered))


def _add_small(svg: Element, found: SeriesHistory, top: float) -> None:
    points = found.series.points
    add_words(svg, 0, top + NAME - 3, name_of_series(found.series))
    add_words(svg, 100, top + NAME - 3, format_time(points[-1].estimate_s), "quiet wide", anchor="end")
    bottom = top + ROW - 6
    across = Axis(0, max(len(points) - 1, 1), 0.5, 99.5)
    down = Axis(*spread([each.estimate_s for each in points]), bottom, top + NAME + 3)
    add_curve(svg, _thinned(points, across, down), "s0", height=bottom)
    for change in found.changes:
        at = across.at(change.at.first - 0.5)
        add_rule(svg, (at, at), (top + NAME + 3, bottom), "slower ticked" if change.ratio > 1 else "faster ticked")


MOST_LISTED = 1000


def _summary(ordered: Sequence[SeriesHistory]) -> Table:
    listed = ordered[:MOST_LISTED]
    return Table(
        "",
        [
            Column("series", [name_of_series(each.series) for each in listed]),
            Column("machine", [each.series.machine or None for each in listed]),
            Column("points", [len(each.series.points) for each in listed]),
            Column("first", [each.series.points[0].estimate_s for each in listed], format_time),
            Column("last", [each.series.points[-1].estimate_s for each in listed], format_time),
            Column("changes", [len(each.changes) if each.is_told else None for each in listed]),
        ],
    )
