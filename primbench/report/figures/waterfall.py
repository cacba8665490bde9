"""Waterfalls: from a fast place to a slow one by what is proven, set after set, and from the slow one back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.experiments.why.rounds import RatioInterval
from primbench.report.document import Column, Figure, Table
from primbench.report.svg_plot import (
    Axis,
    add_bar,
    add_mark,
    add_rule,
    add_ticks_below,
    add_words,
    picture,
    spread,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.experiments.why.conclusion import Conclusion

LANE, LINE = 24, 16  # pixels down
LANE_END = 74.0  # percent of the width; ratios stand to the right of it


class Fall(NamedTuple):
    """One row."""

    words: str
    """A place, or what was set or taken away."""
    begins: float
    """Where the bar begins: times as long as the fast place."""
    ends: float
    """Where the bar ends: times as long as the fast place."""
    look: str = ""
    """Colour of the bar; "" of a place, which has none."""
    step: RatioInterval | None = None
    """By how many times it is longer, with its interval; None where that is not known."""


def waterfall(found: Conclusion, fast: str, slow: str, sets: Sequence[str]) -> Figure | None:
    """None where nothing is proven. sets: each that is, in words, in the order of the proofs."""
    if found.effect is None or not found.proofs:
        return None
    effect = found.effect.ratio
    there = _falls(fast, slow, [f"+ {each}" for each in sets], [each.harms for each in found.proofs], (1.0, effect))
    there[-2] = there[-2]._replace(step=found.unexplained)
    steps_back = [_reversed(each.heals) for each in found.proofs]
    back = _falls(slow, fast, [f"- {each}" for each in sets], steps_back, (effect, 1.0))
    title = f"From {fast} to {slow}, and back"
    words = (
        f"Times as long as {fast}: each bar is what one set of settings makes it longer, or taken away shorter, with a "
        "line for the interval of its end; what nothing that is proven makes is the last bar."
    )
    return Figure(title, words, _picture([there, back], title, words), _numbers([there, back]), is_folded=False)


def _reversed(found: RatioInterval) -> RatioInterval:
    low = 0.0 if found.high is None else 1 / found.high
    return RatioInterval(ratio=1 / found.ratio, low=low, high=1 / found.low if found.low else None)


def _falls(
    first: str, last: str, names: Sequence[str], steps: Sequence[RatioInterval], ends: tuple[float, float]
) -> list[Fall]:
    """ends: what the two places take, as many times as the fast one."""
    levels = [*itertools.accumulate((each.ratio for each in steps), lambda one, step: one * step, initial=ends[0])]
    bars = [
        Fall(name, *level, "slower" if step.ratio > 1 else "faster", step)
        for name, level, step in zip(names, itertools.pairwise(levels), steps, strict=True)
    ]
    rest = Fall("not explained", levels[-1], ends[1], "band")
    return [Fall(first, ends[0], ends[0]), *bars, rest, Fall(last, ends[1], ends[1])]


def _ends(each: Fall) -> list[float]:
    """Its two, and those of the interval."""
    bounds = [each.step.low, each.step.high] if each.step else []
    return [each.begins, each.ends, *(each.begins * bound for bound in bounds if bound)]


def _picture(ways: Sequence[Sequence[Fall]], title: str, words: str) -> Element:
    every = [each for way in ways for each in way]
    height = sum(LINE * len(wrapped(each.words)) + LANE for each in every) + LANE
    svg = picture(height + 22, title, words)
    low, high = spread([1.0, *(end for each in every for end in _ends(each))])
    axis = Axis(low, high, 2, LANE_END)
    add_ticks_below(svg, axis, [(tick, f"{tick:g}") for tick in axis.ticks(5)], 0, height)
    add_rule(svg, (axis.at(1), axis.at(1)), (0, height), "one")
    top = 0.0
    for number, way in enumerate(ways):
        top += LANE * number
        for each in way:
            top = _draw(svg, axis, each, top)
    return svg


def _draw(svg: Element, axis: Axis, each: Fall, top: float) -> float:
    """How far down it reaches."""
    for number, line in enumerate(wrapped(each.words), 1):
        add_words(svg, 0, top + number * LINE - 3, line, "strong halo")
    top += LINE * len(wrapped(each.words))
    ends, y = sorted((axis.at(each.begins), axis.at(each.ends))), top + LANE / 2 - 3
    if each.look:
        add_bar(svg, (ends[0], ends[1]), (top, top + LANE - 8), each.look, _shown(each))
    else:
        add_mark(svg, ends[0], y, "diamond", "s0", tip=_shown(each))
    bounds = [axis.at(end) for end in _ends(each)[2:]]
    if bounds:
        add_rule(svg, (min(bounds), max(bounds)), (y, y), "one ticked")
    add_words(svg, LANE_END + 2, y + 4, _shown(each), "quiet")
    return top + LANE


def _shown(each: Fall) -> str:
    if not each.look:
        return shown_ratio(each.ends)
    return f"x {shown_ratio(_ratio(each) or 1.0)} {_interval(each.step) if each.step else ''}".rstrip()


def _ratio(each: Fall) -> float | None:
    """None of a place."""
    return (each.step.ratio if each.step else each.ends / each.begins) if each.look else None


def _interval(found: RatioInterval) -> str:
    return "" if found.high is None else shown_interval((found.low, found.high))


def _numbers(ways: Sequence[Sequence[Fall]]) -> Table:
    every = [each for way in ways for each in way]
    columns = [
        Column("place, or what is added (+) or taken (-)", [each.words for each in every]),
        Column("times as long as the fast place", [each.ends for each in every], shown_ratio),
        Column("ratio", [*map(_ratio, every)], shown_ratio),
        Column("interval", [_interval(each.step) if each.step else None for each in every]),
    ]
    return Table("", columns)
