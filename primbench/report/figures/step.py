"""A step as a waterfall: what each kind of its parts takes, launches, Python, and what is left unexplained."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import Axis, add_bar, add_rule, add_ticks_below, add_words, picture, time_ticks
from primbench.results.step_explained import LAUNCHES, PYTHON, UNEXPLAINED
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.results.step_explained import Explained, SumRow

LOOKS = {LAUNCHES: "s1", PYTHON: "s3", UNEXPLAINED: "s4"}
ROW, LINE = 36, 15  # pixels down
LANE_END = 72.0  # percent of the width; times stand to the right of it


def step(title: str, found: Explained) -> Figure | None:
    """None where nothing of it was measured."""
    if not any(row.seconds for row in found.rows):
        return None
    words = (
        "Bars follow one another from 0 to the time of the step. Launches are what the calls take longer to start than "
        "to compute, Python and autograd are the host's own work between its calls, and unexplained is what no part "
        "accounts for: below 0, and drawn backwards, where the parts by themselves take longer. Of what was not "
        "measured no time is known, and so no bar is drawn, nor of what is unexplained beside it."
    )
    return Figure(title, words, _picture(found.rows, title, words), _numbers(found), is_folded=False)


def _ends(rows: Sequence[SumRow]) -> list[tuple[float, float]]:
    ends = [0.0, *itertools.accumulate(row.seconds or 0.0 for row in rows)]
    return list(itertools.pairwise(ends))


def _picture(rows: Sequence[SumRow], title: str, words: str) -> Element:
    height = ROW * len(rows)
    svg = picture(height + 22, title, words)
    every = [end for ends in _ends(rows) for end in ends]
    axis = Axis(min(every), max(every), 2, LANE_END)
    add_ticks_below(svg, axis, time_ticks(axis, 5), 0, height)
    for number, (row, (start, end)) in enumerate(zip(rows, _ends(rows), strict=True)):
        top = number * ROW
        add_words(svg, 0, top + LINE - 3, row.name, "strong halo")
        if row.seconds is not None:
            low, high = sorted((axis.at(start), axis.at(end)))
            add_bar(svg, (low, high), (top + LINE, top + ROW - 6), LOOKS.get(row.name, "s0"), format_time(row.seconds))
        add_words(svg, LANE_END + 3, top + ROW - 10, format_time(row.seconds))
        if number + 1 < len(rows):
            add_rule(svg, (axis.at(end), axis.at(end)), (top + ROW - 6, top + ROW + LINE), "one faint")
    return svg


def _numbers(found: Explained) -> Table:
    whole_s = found.step_s
    rows = found.rows
    columns = [
        Column("part", [row.name for row in rows]),
        Column("calls", [row.calls or None for row in rows]),
        Column("time", [row.seconds for row in rows], format_time),
        Column(
            "of the step",
            [row.seconds / whole_s if whole_s and row.seconds is not None else None for row in rows],
            format_percent,
        ),
    ]
    return Table("", columns)
