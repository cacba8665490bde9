"""Which verdicts more pairs would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.sides import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.compare.comparison import CaseComparison, Comparison
    from primbench.spec.case import Case


SURE_ENOUGH = 0.005
"""The q at which a case that differs has no further pairs, in a study that looks at its verdicts after every one.

Simulated, 5 to 40 pairs of equal arms whose processes scatter by 2 %, margin 1 %: with verdicts as they stand at each
look, 23 % end with a difference; with this, 5 %, as a single look has. Equivalence has ``matching.WHILE_LOOKING``.
"""


def unsettled(comparison: Comparison, cases: Sequence[Case]) -> list[Case]:
    """Those of the study's cases that are not settled in every arm; all of them, where none could be compared."""
    compared = [case for case in comparison.cases if case.estimates]
    if not compared:
        return list(cases)
    left = {identity(case.case) for case in compared if not is_settled(case)}
    return [case for case in cases if identity(case) in left]


def is_settled(case: CaseComparison) -> bool:
    """Whether further pairs would hardly change the verdict, but for telling of these runs alone."""
    if case.deciding is None:
        return False
    if case.deciding.outcome in WITHIN_MARGIN:
        return True
    outcome = case.deciding.outcome
    rates = [each.q for each in case.estimates if each.outcome == outcome and (each.judges or each is case.deciding)]
    return outcome != "inconclusive" and any(rate is not None and rate <= SURE_ENOUGH for rate in rates)
