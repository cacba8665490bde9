"""Waterfalls: what one thing after the other adds, up to the whole, and what of that the steps do not explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.compare.shown import shown_ratio
from primbench.compare.sides import identity
from primbench.report.columns import Column
from primbench.report.document import Figure, Numbers
from primbench.report.signs import SIGNS
from primbench.report.svg_plot import Axis, add_bar, add_rule, add_ticks_below, add_words, picture, spread
from primbench.report.verdicts import shown_estimate
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.ratio import Estimate
    from primbench.experiments.ablation import Waterfall

LINE, BAR = 15, 14  # pixels down
WORDS_FROM = 70.0  # percent of the width
UNEXPLAINED, WHOLE = "unexplained", "all of it"


@dataclass(frozen=True)
class Stage:
    """A factor on the time, from what the stages before it came to. look: what certain change it is."""

    name: str
    ratio: float
    start: float
    look: str
    said: str

    @property
    def end(self) -> float:
        return self.start * self.ratio


def waterfalls(found: Waterfall) -> Iterator[Figure]:
    """One for each case, by its primary metric."""
    for case in found.comparison.arms[0].cases if found.comparison.arms else []:
        if stages := _stages(found, case):
            title = f"{name_of(case.case)}: {found.title or 'one ingredient after the other'}"
            words = (
                "Each bar is what one ingredient multiplies the time by, from where those before it came to; right is "
                "slower. The last but one is what the whole differs by from the product of the steps, which is chance "
                "where no step was left out."
            )
            yield Figure(title, words, _picture(stages, title, words), _numbers(stages))


def _stages(found: Waterfall, case: CaseComparison) -> list[Stage]:
    stages: list[Stage] = []
    for step in found.steps:
        estimate = _estimate(step.arm, case)
        if estimate is not None:
            start = stages[-1].end if stages else 1.0
            stages.append(Stage(step.arm.name, estimate.ratio, start, _look(estimate), _said(estimate)))
    wholes = [estimate for arm in found.wholes.values() if (estimate := _estimate(arm, case))]
    if not stages or not wholes:
        return stages
    whole, product = wholes[-1], stages[-1].end
    rest = whole.ratio / product
    return [
        *stages,
        Stage(UNEXPLAINED, rest, product, "s4", shown_ratio(rest)),
        Stage(WHOLE, whole.ratio, 1.0, _look(whole), _said(whole)),
    ]


def _estimate(arm: ArmComparison, case: CaseComparison) -> Estimate | None:
    """Of the case's primary metric in another arm."""
    same = next((each for each in arm.cases if identity(each.case) == identity(case.case)), None)
    metric = case.primary.metric if case.primary else None
    return next((each for each in same.estimates if each.metric == metric), None) if same else None


def _said(found: Estimate) -> str:
    return f"{SIGNS[found.outcome]} {shown_estimate(found)}"


def _look(found: Estimate) -> str:
    return found.outcome if found.outcome in ("slower", "faster") else "same" if found.is_equivalent else "open"


def _picture(stages: Sequence[Stage], title: str, words: str) -> Element:
    height = (LINE + BAR + 6) * len(stages)
    svg = picture(height + 22, title, words)
    low, high = spread([1.0, *(stage.start for stage in stages), *(stage.end for stage in stages)], log=True)
    axis = Axis(low, high, 2, WORDS_FROM - 4)
    add_ticks_below(svg, axis, [(tick, f"{tick:g}") for tick in axis.ticks(6)], 0, height)
    add_rule(svg, (axis.at(1), axis.at(1)), (0, height), "one")
    for number, stage in enumerate(stages):
        top = number * (LINE + BAR + 6)
        add_words(svg, 0, top + LINE - 3, stage.name, "strong halo")
        ends = sorted((axis.at(stage.start), axis.at(stage.end)))
        add_bar(svg, (ends[0], ends[1]), (top + LINE, top + LINE + BAR), stage.look, stage.said)
        add_words(svg, WORDS_FROM, top + LINE + BAR - 3, stage.said)
        if number + 1 < len(stages) and stages[number + 1].name != WHOLE:
            end = axis.at(stage.end)
            add_rule(svg, (end, end), (top + LINE + BAR, top + 2 * LINE + BAR + 6), "one")
    return svg


def _numbers(stages: Sequence[Stage]) -> Numbers:
    columns = [
        Column("ingredient", [stage.name for stage in stages]),
        Column("to the one before", [stage.said for stage in stages]),
        Column("to the host", [stage.end for stage in stages], shown_ratio),
    ]
    return Numbers("", columns)
