"""The roofline: operations a second against operations a byte, below what memory and arithmetic allow at most.

Williams, Waterman and Patterson, Roofline, Communications of the ACM 52 (2009), 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.baselines.roof import ceilings_of
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import XyPlot, add_words, rate_ticks, spread, xy_plot
from primbench.spec.naming import names_of
from primbench.units import format_percent, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from primbench.baselines.roof import Ceiling
    from primbench.problem import Bound
    from primbench.results.file import Results
    from primbench.results.record import Record

HEIGHT = 300  # pixels down, without legend and ticks
MOST_CASES = 1000


@dataclass(frozen=True)
class Point:
    """A case in the picture."""

    record: Record
    """What was measured."""
    intensity: float
    """Operations for each byte that a call moves at least."""
    flop_per_s: float
    """Operations a second, by the main metric's median."""


def rooflines(results: Results) -> Iterator[Figure]:
    """One for each device and kind of arithmetic; of what nothing is known to bound, points alone."""
    found: dict[tuple[str, Bound], list[Point]] = {}
    for record in results.records:
        problem = record.case.known_problem()
        if problem and (bound := problem.bound()) and (point := _point(record)):
            found.setdefault((record.case.device, bound), []).append(point)
    for (device, bound), points in found.items():
        yield _roofline(points, ceilings_of(results, device, bound), f"Roofline of {device}, {_kind(bound)}")


def _kind(bound: Bound) -> str:
    return f"{bound.by} {bound.math_mode}".rstrip() if bound.rate == "flop_per_s" else "bound by memory"


def _roofline(points: Sequence[Point], ceilings: Sequence[Ceiling], title: str) -> Figure:
    drawn = _thinned(points)
    words = (
        "Operations a second by operations a byte, both to logarithms. The slope is what memory lets through, the flat "
        "line what arithmetic does at most: solid as measured in this run, dashed as the maker prints it. A case far "
        "below both waits for something else, such as launches."
    )
    if not ceilings:
        words += " Nothing is known here of what the device does at most: --roof measures it."
    if len(drawn) < len(points):
        words += f" Drawn are {len(drawn)} of {len(points)} cases, evenly by their rate."
    return Figure(title, words, _picture(drawn, ceilings, title, words), _numbers(drawn, ceilings))


def _point(record: Record) -> Point | None:
    measured = record.measurement
    if measured is None or not (measured.flop and measured.bytes_moved and measured.flop_per_s):
        return None
    return Point(record, measured.flop / measured.bytes_moved, measured.flop_per_s)


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """By quantiles of their rate, the least and the greatest included."""
    if len(points) <= MOST_CASES:
        return points
    ordered = sorted(points, key=lambda point: point.flop_per_s)
    return [ordered[round(n * (len(ordered) - 1) / (MOST_CASES - 1))] for n in range(MOST_CASES)]


def _picture(points: Sequence[Point], ceilings: Sequence[Ceiling], title: str, words: str) -> Element:
    names = dict.fromkeys(point.record.case.primitive for point in points)
    plot, legend = xy_plot((title, words), names, *_ends(points, ceilings), height=HEIGHT, below=38)
    plot.ticks([(tick, f"{tick:g}") for tick in plot.across.ticks()], rate_ticks(plot.down, 5, "FLOP/s"))
    add_words(plot.svg, 98, plot.bottom + 31, "operations a byte", "tick", anchor="end")
    for ceiling in ceilings:
        _draw_ceiling(plot, ceiling)
    looks = {name: (shape, look) for shape, look, name in legend}
    for name, point in zip(_names(points), points, strict=True):
        shape, look = looks[point.record.case.primitive]
        tip = f"{name}: {format_rate(point.flop_per_s, 'FLOP/s')}"
        plot.mark(point.intensity, point.flop_per_s, shape, f"{look} faint", tip=tip)
    return plot.svg


def _names(points: Sequence[Point]) -> list[str]:
    return names_of([point.record.case for point in points])


def _ends(points: Sequence[Point], ceilings: Sequence[Ceiling]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of both axes, which show all points, and where slope and flat line of every ceiling meet."""
    turns = [each.flop_per_s / each.bytes_per_s for each in ceilings if each.flop_per_s and each.bytes_per_s]
    most = [each.flop_per_s for each in ceilings if each.flop_per_s]
    across = spread([*(point.intensity for point in points), *turns], log=True)
    return across, spread([*(point.flop_per_s for point in points), *most], log=True)


def _draw_ceiling(plot: XyPlot, ceiling: Ceiling) -> None:
    """The lower of slope and flat line, as far as each is known, from where it comes into the picture."""
    across, down = plot.across, plot.down
    turn = across.high
    if ceiling.flop_per_s and ceiling.bytes_per_s:
        turn = ceiling.flop_per_s / ceiling.bytes_per_s
    start = max(across.low, down.low / ceiling.bytes_per_s) if ceiling.bytes_per_s else across.low
    places = [start, min(max(turn, start), across.high), across.high]
    points = [(x, most) for x in places if (most := ceiling.at(x))]
    plot.curve(points, "one dashed" if ceiling.is_printed else "one")
    if ceiling.flop_per_s:
        add_words(plot.svg, 98, down.at(ceiling.flop_per_s) - 5, _said(ceiling), "quiet halo", anchor="end")


def _said(ceiling: Ceiling) -> str:
    rates = [
        format_rate(ceiling.flop_per_s, "FLOP/s") if ceiling.flop_per_s else "arithmetic unknown",
        format_rate(ceiling.bytes_per_s, "B/s") if ceiling.bytes_per_s else "memory unknown",
    ]
    return f"{_name(ceiling)}: {', '.join(rates)}"


def _name(ceiling: Ceiling) -> str:
    return "the maker's" if ceiling.is_printed else "the measured"


def _numbers(points: Sequence[Point], ceilings: Sequence[Ceiling]) -> Table:
    columns = [
        Column("case", _names(points)),
        Column("operations a byte", [point.intensity for point in points], "{:.3g}".format),
        Column("FLOP/s", [point.flop_per_s for point in points], lambda rate: format_rate(rate, "FLOP/s")),
        *(_shares(points, ceiling) for ceiling in ceilings),
    ]
    return Table("; ".join(map(_said, ceilings)), columns)


def _shares(points: Sequence[Point], ceiling: Ceiling) -> Column:
    most = [ceiling.at(point.intensity) for point in points]
    shares = [point.flop_per_s / limit if limit else None for point, limit in zip(points, most, strict=True)]
    return Column(f"of {_name(ceiling)} roof", shares, format_percent)
