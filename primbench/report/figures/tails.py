"""Tails: which share of calls takes longer than a time, where each tenth of what remains has the same room."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from primbench import stats
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import spread, time_ticks, xy_plot
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

FEWEST = 50  # single calls, below which there is no tail to speak of
HEIGHT = 220  # pixels down, without legend and ticks
A_DECADE = 8  # quantiles between a share of calls and a tenth of it
NAMED = {0.5: "50 %", 0.1: "10 %", 0.01: "1 %", 0.001: "0.1 %", 0.0001: "0.01 %", 0.00001: "0.001 %"}

Curve = dict[float, float]
"""Share of calls that take longer -> the time that they take longer than."""


def tails(title: str, samples: Mapping[str, Sequence[float]], of: int = 0) -> Figure | None:
    """samples: of single calls, in seconds, by the name of their curve; of fewer than 50 there is none.

    of: how many curves there would be, if not all are given.
    """
    curves = {name: curve(found) for name, found in samples.items() if len(found) >= FEWEST}
    if not curves:
        return None
    counts = sorted({len(samples[name]) for name in curves})
    calls = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    words = (
        "How many calls take longer than a time: further right is slower; a curve that bends to the right at its "
        f"foot has rare slow calls. {calls} single calls a curve, drawn by quantiles: {A_DECADE} for each tenth of "
        "what remains."
    )
    if len(curves) < of:
        words += f" Drawn are {len(curves)} of {of} cases, those whose slow calls are furthest from their median."
    return Figure(title, words, _picture(curves, title, words), _numbers(curves))


def curve(samples: Sequence[float]) -> Curve:
    """Its quantiles: the share beyond goes down from 1 to one call, in equal steps of its logarithm."""
    ordered = sorted(samples)
    shares = [10 ** (-step / A_DECADE) for step in range(10 * A_DECADE)]
    named = {share for share in NAMED if share * len(ordered) >= 1}
    kept = sorted({*named, *(share for share in shares if share * len(ordered) >= 1)}, reverse=True)
    return {share: stats.quantile(ordered, 1 - share) for share in kept}


def _picture(curves: Mapping[str, Curve], title: str, words: str) -> Element:
    times = spread(itertools.chain(*(found.values() for found in curves.values())), log=True)
    least = min(map(min, curves.values()))
    plot, legend = xy_plot((title, words), curves, times, (least, 1), height=HEIGHT)
    plot.ticks(time_ticks(plot.across, 6), [(share, word) for share, word in NAMED.items() if share >= least])
    for (shape, look, name), found in zip(legend, curves.values(), strict=True):
        plot.curve([(value, share) for share, value in found.items()], look)
        for share in NAMED.keys() & found.keys():
            tip = f"{name}: {format_time(found[share])}"
            plot.mark(found[share], share, shape, look, tip=tip)
    return plot.svg


def _numbers(curves: Mapping[str, Curve]) -> Table:
    shares = sorted({share for found in curves.values() for share in found}, reverse=True)
    columns = [Column(name, [found.get(share) for share in shares], format_time) for name, found in curves.items()]
    return Table("", [Column("calls that take longer", shares, _share), *columns])


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"
