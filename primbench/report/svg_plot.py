"""What charts are drawn with, as wide as their page: places are percent of the width, words keep their size.

Heights and the sizes of marks are in pixels. Colours are classes, which the page gives their values, light or dark; of
what a class tells apart a shape tells the same.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement

from primbench.report.plain import printable
from primbench.units import format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


HOTTEST = 0.6  # how much of its colour a cell of a heat map has at most
NARROW = 360  # pixels that a small screen has for a picture
LEGEND = 18  # pixels down, a row
EXACT = 1e-9  # noise of a time that is shown with as many digits as there are
SHAPES = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "square": "M-4-4h8v8h-8z",
    "diamond": "M0-5.5L5.5 0L0 5.5L-5.5 0z",
    "right": "M-4-5.5L6 0L-4 5.5z",
    "left": "M4-5.5L-6 0L4 5.5z",
    "up": "M-5.5 4L0-6L5.5 4z",
    "cross": "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z",
    "down": "M-5.5-4L0 6L5.5-4z",
}
OF_SERIES = ("circle", "square", "up", "diamond", "down", "cross")
"""The shape of each series, by its number; as many have a colour, ``s0`` on."""


@dataclass(frozen=True)
class Axis:
    """Where values stand in a picture."""

    low: float
    """The least value that is shown."""
    high: float
    """The greatest value that is shown."""
    start: float = 2.0
    """Where the least stands: percent of the width, or pixels down."""
    end: float = 98.0
    """Where the greatest stands, likewise."""
    log: bool = False
    """Whether values stand by their logarithms."""

    def at(self, value: float) -> float:
        """Where a value stands; at the nearer end where it lies outside."""
        low, high, value = (self._scaled(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, math.ulp(0.0))) if self.log else value

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within it, ``most`` or fewer of them: by decades where it spans two or more."""
        if self.log and self.high >= 100 * self.low:
            return _decades(self.low, self.high, most)
        step = _step((self.high - self.low) / most) if self.high > self.low else 1.0
        first = math.ceil(self.low / step - 1e-9)
        places = itertools.takewhile(lambda n: n * step <= self.high * (1 + 1e-12), itertools.count(first))
        return [round(n * step, 12 - math.floor(math.log10(step))) for n in places]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = math.ceil((last - first + 1) / most)
    return [10.0**power for power in range(first, last + 1, every)]


def _step(least: float) -> float:
    """The round number next above."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def spread(values: Iterable[float], *, log: bool = False, margin: float = 0.05) -> tuple[float, float]:
    """The ends of an axis that shows all of them, with a margin on both sides. Raises ValueError for none."""
    found = list(values)
    low, high = min(found), max(found)
    if log:
        room = (high / low) ** margin if high > low else 1.5
        return low / room, high * room
    room = margin * (high - low) or abs(high) or 1.0
    return low - room, high + room


def picture(height: float, title: str, words: str) -> Element:
    """words: what it shows, for those who cannot see it."""
    svg = Element("svg", {"class": "plot", "role": "img", "width": "100%", "height": f"{height:g}"})
    SubElement(svg, "title").text = printable(title)
    SubElement(svg, "desc").text = printable(words)
    return svg


def add_words(svg: Element, x: float, y: float, words: str, look: str = "", *, anchor: str = "start") -> None:
    attributes = {"x": percent(x), "y": f"{y:g}"} | ({"class": look} if look else {})
    SubElement(svg, "text", attributes | ({"text-anchor": anchor} if anchor != "start" else {})).text = printable(words)


def add_rule(svg: Element, x: tuple[float, float], y: tuple[float, float], look: str, tip: str = "") -> None:
    """A straight line."""
    ends = {"x1": percent(x[0]), "x2": percent(x[1]), "y1": f"{y[0]:g}", "y2": f"{y[1]:g}"}
    _tipped(SubElement(svg, "line", ends | {"class": look}), tip)


def add_bar(svg: Element, x: tuple[float, float], y: tuple[float, float], look: str, tip: str = "") -> None:
    """A box between two places; one that would not be seen is a pixel wide."""
    size = {"width": percent(max(x[1] - x[0], 0.15)), "height": f"{y[1] - y[0]:g}"}
    _tipped(SubElement(svg, "rect", {"x": percent(x[0]), "y": f"{y[0]:g}"} | size | {"class": look}), tip)


def add_mark(svg: Element, x: float, y: float, shape: str, look: str, *, tip: str = "") -> None:
    if shape == "circle":
        place = {"cx": percent(x), "cy": f"{y:g}", "r": "4"}
        _tipped(SubElement(svg, "circle", place | {"class": f"mark {look}"}), tip)
        return
    at = SubElement(svg, "svg", {"x": percent(x), "y": f"{y:g}", "class": "at"})
    _tipped(SubElement(at, "path", {"d": SHAPES[shape], "class": f"mark {look}"}), tip)


def add_curve(svg: Element, points: Sequence[tuple[float, float]], look: str, *, height: float, top: float = 0) -> None:
    """A line through points: percent of the width, and pixels down from the top of the picture."""
    box = {"width": "100%", "height": f"{height:g}", "y": f"{top:g}"}
    view = {"viewBox": f"0 0 1000 {height:g}", "preserveAspectRatio": "none", "class": "at"}
    inner = SubElement(svg, "svg", box | view)
    path = "M" + "L".join(f"{10 * x:.1f} {y - top:.1f}" for x, y in points)
    SubElement(inner, "path", {"d": path, "class": f"curve {look}", "vector-effect": "non-scaling-stroke"})


def add_ticks_below(svg: Element, axis: Axis, ticks: Iterable[tuple[float, str]], top: float, bottom: float) -> None:
    """A faint line up and a number below for each tick, (value, word); the outermost words stay in the picture."""
    for value, word in ticks:
        x = axis.at(value)
        add_rule(svg, (x, x), (top, bottom), "grid")
        add_words(svg, x, bottom + 15, word, "tick", anchor="start" if x < 4 else "end" if x > 96 else "middle")


def add_ticks_left(svg: Element, axis: Axis, ticks: Iterable[tuple[float, str]], ends: tuple[float, float]) -> None:
    """A faint line across for each tick, its number on it, so that no margin is needed."""
    for value, word in ticks:
        y = axis.at(value)
        add_rule(svg, ends, (y, y), "grid")
        add_words(svg, ends[0], y - 3, word, "tick")


def add_legend(svg: Element, entries: Sequence[tuple[str, str, str]]) -> None:
    """entries: (shape, look, word), in rows at the top of the picture."""
    columns = _columns(entries)
    for number, (shape, look, word) in enumerate(entries):
        x, y = 2 + 98 / columns * (number % columns), LEGEND * (1 + number // columns) - 2
        add_mark(svg, x, y - 4, shape, look)
        at = SubElement(svg, "svg", {"x": percent(x), "class": "at"})
        SubElement(at, "text", {"x": "10", "y": f"{y:g}"}).text = printable(word)


def below_legend(entries: Sequence[tuple[str, str, str]]) -> float:
    """How many pixels down a picture begins that has such a legend."""
    return LEGEND * math.ceil(len(entries) / _columns(entries)) + 18


def _columns(entries: Sequence[tuple[str, str, str]]) -> int:
    """So many that the words fit a narrow screen."""
    longest = max((len(word) for _, _, word in entries), default=0)
    return max(1, min(len(entries), NARROW // (7 * longest + 24)))


def wrapped(words: str, letters: int = 52) -> list[str]:
    """Lines that fit a narrow screen, broken at spaces."""
    import textwrap

    return textwrap.wrap(printable(words), letters, break_on_hyphens=False) or [""]


def series(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(shape, look, name) of each, told apart by both."""
    for number, name in enumerate(names):
        yield OF_SERIES[number % len(OF_SERIES)], f"s{number % len(OF_SERIES)}", name


def percent(place: float) -> str:
    return f"{place:.2f}%"


def _tipped(element: Element, tip: str) -> None:
    if tip:
        SubElement(element, "title").text = printable(tip)


def time_ticks(axis: Axis, most: int) -> list[tuple[float, str]]:
    """Its ticks, with as many digits of the times as they have."""
    return [(tick, _short(format_time(tick, noise=EXACT))) for tick in axis.ticks(most)]


def rate_ticks(axis: Axis, most: int, what: Literal["FLOP/s", "B/s"]) -> list[tuple[float, str]]:
    return [(tick, format_rate(tick, what)) for tick in axis.ticks(most)]


def _short(quantity: str) -> str:
    """Without zeros at the end of its number."""
    number, _, unit = quantity.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def add_heat(svg: Element, x: tuple[float, float], y: tuple[float, float], strength: float) -> None:
    """A cell of a heat map; words on it stay readable at any strength from 0 to 1."""
    add_bar(svg, x, y, "band")
    add_bar(svg, x, y, "heat")
    svg[-1].set("fill-opacity", f"{HOTTEST * strength:.2f}")


LEFT = 6.0  # percent of the width, where numbers on lines across end


@dataclass(frozen=True)
class XyPlot:
    """A picture with values across and down."""

    svg: Element
    """What all is drawn in."""
    across: Axis
    """Of values that stand across."""
    down: Axis
    """Of values that stand up and down."""
    top: float
    """Where what is drawn begins, in pixels down."""
    bottom: float
    """Where it ends, in pixels down."""

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
