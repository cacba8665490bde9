"""What charts with two logarithmic axes have in common: a legend above, marks and curves of several series below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.report.svg_plot import (
    Axis,
    add_curve,
    add_legend,
    add_mark,
    add_ticks_below,
    add_ticks_left,
    below_legend,
    picture,
    series,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from xml.etree.ElementTree import Element

LEFT = 6.0  # percent of the width, where numbers on lines across end


@dataclass(frozen=True)
class XyPlot:
    """across, down: its axes. top, bottom: of what is drawn, in pixels down."""

    svg: Element
    across: Axis
    down: Axis
    top: float
    bottom: float

    def ticks(self, across: Iterable[tuple[float, str]], down: Iterable[tuple[float, str]]) -> None:
        """(value, word) of each."""
        add_ticks_below(self.svg, self.across, across, self.top, self.bottom)
        add_ticks_left(self.svg, self.down, down, (0, 100))

    def mark(self, x: float, y: float, shape: str, look: str, *, tip: str) -> None:
        add_mark(self.svg, self.across.at(x), self.down.at(y), shape, look, tip=tip)

    def curve(self, points: Iterable[tuple[float, float]], look: str) -> None:
        """Through (x, y) of these."""
        add_curve(self.svg, [(self.across.at(x), self.down.at(y)) for x, y in points], look, height=self.bottom)


def xy_plot(
    said: tuple[str, str],
    names: Iterable[str],
    across: tuple[float, float],
    down: tuple[float, float],
    *,
    height: float,
    below: float = 22,
) -> tuple[XyPlot, Sequence[tuple[str, str, str]]]:
    """A plot, and shape, look and name of each series. said: title and words. across, down: ends of its axes.

    height, below: pixels of what is drawn, and of what stands below it.
    """
    legend = [*series(names)]
    top = below_legend(legend)
    bottom = top + height
    svg = picture(bottom + below, *said)
    add_legend(svg, legend)
    return XyPlot(svg, Axis(*across, LEFT, 98, log=True), Axis(*down, bottom, top, log=True), top, bottom), legend
