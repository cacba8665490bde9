"""Whether more pairs would change a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.comparison import WITHIN_MARGIN

if TYPE_CHECKING:
    from primbench.compare.comparison import CaseComparison, Comparison


SURE_ENOUGH = 0.005
"""The q at which a difference ends a study that looks at its verdicts after every pair.

Simulated, 5 to 40 pairs of equal arms whose processes scatter by 2 %, margin 1 %: with verdicts as they stand at each
look, 23 % end with a difference; with this, 5 %, as a single look has. Equivalence has ``matching.WHILE_LOOKING``.
"""


def is_settled(comparison: Comparison) -> bool:
    """Whether further pairs would hardly change the verdict of a case."""
    compared = [case for case in comparison.cases if case.estimates]
    return bool(compared) and all(map(is_settled_case, compared))


def is_settled_case(case: CaseComparison) -> bool:
    """The same of one case."""
    if case.deciding is None:
        return False
    if case.deciding.outcome in WITHIN_MARGIN:
        return True
    return case.deciding.outcome != "inconclusive" and case.deciding.q is not None and case.deciding.q <= SURE_ENOUGH
