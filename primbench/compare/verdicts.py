"""From the processes of all sides to verdicts: what is certain, without what tells the places apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.comparison import ArmComparison
from primbench.compare.estimates import compare_cases, mean_of
from primbench.compare.judgement import judge
from primbench.compare.matching import Matching, Twin
from primbench.compare.sides import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.compare.sides import Side


class JudgedCase(NamedTuple):
    """A case in all arms, in the order given."""

    arms: list[ArmComparison]
    itself: ArmComparison | None
    """The baseline against its twin, None where it was run once."""


def verdicts(
    baseline: Side, others: Sequence[Side], again: Side | None, matching: Matching, every: Sequence[Side] = ()
) -> JudgedCase:
    """All arms against the baseline. again: the baseline run once more, which is part of it where the two agree.
    every: the places whose outputs are set beside each other; none where these are not asked about.
    """
    itself = None
    if again is not None:
        (itself,) = judge(against(baseline, [again], matching, every), None)
        matching = replace(matching, twin=Twin(again, _agreed(itself)))
    return JudgedCase(judge(against(baseline, others, matching, every), itself), itself)


def against(baseline: Side, sides: Sequence[Side], matching: Matching, every: Sequence[Side]) -> list[ArmComparison]:
    """Arms against the baseline: ratios alone, as verdicts depend on all arms and cases."""
    return [
        ArmComparison(
            name=side.name,
            arm=side.arm,
            effect=None,
            differences={},
            cases=[each.found for each in cases],
            mean=mean_of(cases, matching.ratio),
        )
        for side, cases in zip(sides, compare_cases(baseline, sides, matching, every), strict=True)
    ]


def _agreed(itself: ArmComparison) -> frozenset[tuple[bytes, str]]:
    """The cases and metrics in which the baseline does not differ from itself for certain."""
    return frozenset(
        (identity(case.case), each.metric) for case in itself.cases for each in case.estimates if not each.differs
    )
