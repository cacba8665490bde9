"""Strips: the median of every process, an arm a row, which show what a ratio and its interval rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench import stats
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import (
    EXACT,
    Axis,
    add_mark,
    add_rule,
    add_ticks_below,
    add_words,
    picture,
    series,
    spread,
    time_ticks,
)
from primbench.report.verdicts import heading
from primbench.spec.naming import name_of
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from primbench.compare.sides import Side
    from primbench.spec.case import Case

ROW = 40  # pixels down


def strips(case: Case, key: bytes, metric: str, sides: Sequence[Side]) -> Figure | None:
    """Of one case by one metric; None where no arm has two processes. key: as ``Side.cases`` has it."""
    found = {side.name: values for side in sides if (values := side.numbers_of(key).of_all.get(metric))}
    if max(map(len, found.values()), default=0) < 2:
        return None
    title = f"{name_of(case)}: processes"
    words = f"By {heading(metric)}, a mark a process; the upright line is the median of an arm's processes."
    return Figure(title, words, _picture(found, title, words), _numbers(found))


def shown(seconds: float) -> str:
    """With five digits, which tell one process from another."""
    return format_time(seconds, noise=EXACT)


def _picture(found: Mapping[str, Mapping[int, float]], title: str, words: str) -> Element:
    height = ROW * len(found)
    svg = picture(height + 22, title, words)
    axis = Axis(*spread([value for values in found.values() for value in values.values()]))
    add_ticks_below(svg, axis, time_ticks(axis, 6), 0, height)
    for number, (shape, look, name) in enumerate(series(found)):
        top, values = number * ROW, found[name]
        add_words(svg, 0, top + 14, name, "strong halo")
        middle = axis.at(stats.quantile(list(values.values()), 0.5))
        add_rule(svg, (middle, middle), (top + 19, top + 37), f"{look} ticked")
        for process, value in values.items():
            add_mark(svg, axis.at(value), top + 28, shape, f"{look} faint", tip=f"pair {process + 1}: {shown(value)}")
    return svg


def _numbers(found: Mapping[str, Mapping[int, float]]) -> Table:
    processes = sorted({process for values in found.values() for process in values})
    columns = [Column(name, [values.get(process) for process in processes], shown) for name, values in found.items()]
    return Table("", [Column("pair", [process + 1 for process in processes]), *columns])
