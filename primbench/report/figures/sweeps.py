"""Rates against sizes: measured marks, and the curve of one latency and one bandwidth that fits their times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.report.document import Column, Figure, Table
from primbench.report.line import sweeps
from primbench.report.svg_plot import rate_ticks, spread, xy_plot
from primbench.units import format_bytes, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.report.line import Sweep
    from primbench.results.record import Record

HEIGHT = 230  # pixels down, without legend and ticks
STEPS = 60  # of a curve
MOST_TICKS = 6


def rates(records: Sequence[Record]) -> Figure | None:
    """Of records of one primitive; None where its size is not one number of bytes, or they have fewer than four."""
    found = sweeps(records)
    return rates_of(records[0].case.primitive, found) if found else None


def rates_of(primitive: str, found: Sequence[Sweep]) -> Figure:
    """Of sweeps of one primitive, each with a name of its own."""
    title = f"{primitive}: bytes a second by size"
    words = (
        "Marks are measured; a curve is what one latency and one bandwidth, fitted to the times, would give. A mark "
        "below its curve is slower than its neighbours let expect; there is no curve where none fits."
    )
    return Figure(title, words, _picture(found, title, words), _numbers(found))


def _picture(found: Sequence[Sweep], title: str, words: str) -> Element:
    sizes = spread([size for sweep in found for size, _ in sweep.points], log=True)
    every = spread([_rate(sweep, size, time_s) for sweep in found for size, time_s in sweep.points], log=True)
    plot, legend = xy_plot((title, words), [sweep.name for sweep in found], sizes, every, height=HEIGHT)
    plot.ticks([(size, format_bytes(size)) for size in _sizes(*sizes)], rate_ticks(plot.down, 5, "B/s"))
    for (shape, look, _), sweep in zip(legend, found, strict=True):
        plot.curve(_curve(sweep), look)
        for size, time_s in sweep.points:
            rate = _rate(sweep, size, time_s)
            tip = f"{format_bytes(size)}: {format_rate(rate, 'B/s')}"
            plot.mark(size, rate, shape, look, tip=tip)
    return plot.svg


def _rate(sweep: Sweep, size: float, time_s: float) -> float:
    return sweep.moved * size / time_s


def _curve(sweep: Sweep) -> list[tuple[float, float]]:
    """Rates that the fitted line gives between the smallest and the largest size; nothing where no line fits."""
    line = sweep.line
    if line is None:
        return []
    low, high = min(sweep.points)[0], max(sweep.points)[0]
    sizes = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    times = [line.latency_s + size / line.size_bytes_per_s for size in sizes]
    return [(size, _rate(sweep, size, time_s)) for size, time_s in zip(sizes, times, strict=True)]


def _sizes(low: float, high: float) -> list[int]:
    """Powers of two within, a few."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(1, math.ceil((last - first + 1) / MOST_TICKS))
    return [2**power for power in range(first, last + 1, every)]


def _numbers(found: Sequence[Sweep]) -> Table:
    rows = [(sweep, size, time_s) for sweep in found for size, time_s in sweep.points]
    by_line = [sweep.line and sweep.line.latency_s + size / sweep.line.size_bytes_per_s for sweep, size, _ in rows]
    columns = [
        Column("what", [sweep.name for sweep, _, _ in rows]),
        Column("size", [size for _, size, _ in rows], format_bytes),
        Column("time", [time_s for _, _, time_s in rows], format_time),
        Column("by the fit", by_line, format_time),
        Column("bytes a second", [_rate(*row) for row in rows], lambda rate: format_rate(rate, "B/s")),
    ]
    return Table("", columns)
