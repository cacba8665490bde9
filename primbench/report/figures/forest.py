"""Forest plots: of each case the ratio to the baseline, its 95 % interval, the margin around 1, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Column, Figure, Table, VerdictCell
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
from primbench.report.verdicts import SIGNS, heading, in_words, outcome_in_short, shown_estimate, telling
from primbench.spec.naming import names_of
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from xml.etree.ElementTree import Element

    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.ratio import Estimate, Verdict

LOOKS: dict[Verdict, tuple[str, str]] = {
    "slower": ("right", "slower"),
    "faster": ("left", "faster"),
    "different-about-the-margin": ("diamond", "open"),
    "different-but-small": ("diamond", "same"),
    "equivalent": ("circle", "same"),
    "equivalent-at-full-speed": ("circle", "same"),
    "equivalent-in-these-runs": ("circle", "same"),
    "inconclusive": ("square", "hollow"),
}
"""The shape and the look of a verdict."""
LANE_END = 57.0  # percent of the width; verdicts stand to the right of it
LANE, LINE = 26, 16  # pixels down
MOST_ROWS = 150
MOST_LISTED = 1000
WIDE = 1.5  # from such a span on, ratios are drawn by their logarithms


@dataclass(frozen=True)
class ForestRow:
    """An estimate and what it says."""

    name: str
    """Name of the case; "" in further rows of the same one."""
    found: Estimate
    """The ratio, with its intervals."""
    verdict: Verdict
    """What it came to, by which it is drawn."""
    said: VerdictCell
    """The verdict in words, which stand beside it."""

    @property
    def words(self) -> str:
        """What stands beside its mark, short enough for a small screen."""
        short = f"{SIGNS[self.verdict]} {in_words(self.verdict)}"
        return short if self.name else f"{heading(self.found.metric)}: {outcome_in_short(self.found)}"


def forest(arm: ArmComparison, baseline: str) -> Figure | None:
    """Of every case the metric that decided its verdict, and others that moved; None where nothing was compared."""
    cases = list(_cases(arm))
    rows = list(chain(*cases))
    if not rows:
        return None
    drawn = rows if len(rows) <= MOST_ROWS else list(chain(*_furthest(cases)))[:MOST_ROWS]
    listed = rows if len(rows) <= MOST_LISTED else drawn
    title = f"{arm.name} against {baseline}"
    words = (
        f"Ratio of times, {arm.name} to {baseline}: right of 1 is slower. A mark is the ratio, its line the 95 % "
        "interval; the band is what counts as equal for that case."
    )
    if len(drawn) < len(rows):
        words += f" Drawn are the {len(drawn)} of {len(rows)} that differ most"
        words += "." if listed is rows else ", and so are their numbers; `primbench compare --csv FILE` writes all."
    return Figure(title, words, _picture(drawn, title, words), _numbers(listed, baseline, arm.name), is_folded=False)


def _furthest(cases: Sequence[list[ForestRow]]) -> list[list[ForestRow]]:
    return sorted(cases, key=lambda rows: -max((_distance(row.found) for row in rows), default=0.0))


def _cases(arm: ArmComparison) -> Iterator[list[ForestRow]]:
    """The rows of each case."""
    for name, case in zip(names_of([case.case for case in arm.cases]), arm.cases, strict=True):
        yield [_row(name, case, estimate, said) for estimate, said in telling(case)]


def _row(name: str, case: CaseComparison, estimate: Estimate, said: VerdictCell) -> ForestRow:
    first = estimate is case.deciding
    verdict = case.verdict if first and case.verdict else estimate.outcome
    return ForestRow(name if first else "", estimate, verdict, said)


def _distance(found: Estimate) -> float:
    return max(found.ratio, 1 / found.ratio)


def _picture(rows: Sequence[ForestRow], title: str, words: str) -> Element:
    names = [wrapped(row.name) if row.name else [] for row in rows]
    height = sum(LINE * len(name) + LANE for name in names)
    svg = picture(height + 22, title, words)
    low, high = spread([end for row in rows for end in _ends(row.found)], log=True)
    axis = Axis(low, high, 2, LANE_END, log=high / low > WIDE)
    add_ticks_below(svg, axis, [(tick, f"{tick:g}") for tick in axis.ticks(5)], 0, height)
    add_rule(svg, (axis.at(1), axis.at(1)), (0, height), "one")
    top = 0.0
    for row, name in zip(rows, names, strict=True):
        for number, line in enumerate(name, 1):
            add_words(svg, 0, top + number * LINE - 3, line, "strong halo")
        top += LINE * len(name)
        _draw(svg, axis, row, top)
        top += LANE
    return svg


def _ends(found: Estimate) -> Iterator[float]:
    yield from (found.interval or ())
    yield from (found.ratio, 1 + found.margin, 1 / (1 + found.margin))


def _draw(svg: Element, axis: Axis, row: ForestRow, top: float) -> None:
    found, y = row.found, top + LANE / 2 - 3
    shape, look = LOOKS[row.verdict]
    line = "open" if look == "hollow" else look
    band = axis.at(1 / (1 + found.margin)), axis.at(1 + found.margin)
    add_bar(svg, band, (top, top + LANE - 6), "band", format_percent(found.margin))
    if found.interval:
        add_rule(svg, (axis.at(found.interval[0]), axis.at(found.interval[1])), (y, y), f"{line} ticked")
    ratio = shown_estimate(found)
    add_mark(svg, axis.at(found.ratio), y, shape, look, tip=ratio)
    add_words(svg, LANE_END + 3, y + 4, row.words, f"{line} strong")
    add_words(svg, 100, y + 4, ratio, "quiet wide", anchor="end")


def _numbers(rows: Sequence[ForestRow], baseline: str, arm: str) -> Table:
    def column(title: str, value: Callable[[ForestRow], object], format_: Callable[[Any], str] = str) -> Column:
        return Column(title, [value(row) for row in rows], format_)

    columns = [
        column("case", lambda row: row.name),
        column("metric", lambda row: heading(row.found.metric)),
        column("pairs", lambda row: row.found.pairs),
        column(baseline, lambda row: row.found.baseline_s, format_time),
        column(arm, lambda row: row.found.arm_s, format_time),
        column("ratio", lambda row: row.found.ratio, shown_ratio),
        column("95 % interval", lambda row: row.found.interval, shown_interval),
        column("margin", lambda row: row.found.margin, format_percent),
        column("verdict", lambda row: row.said),
    ]
    return Table("", columns)
