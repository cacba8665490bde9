"""What keeps a comparison from passing: the cases that ``--fail-on`` and ``--fail-above`` name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from primbench.compare.comparison import DIFFERENT

if TYPE_CHECKING:
    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison

FailOn = Literal["slower", "different", "inconclusive", "never"]


@dataclass(frozen=True)
class Gate:
    """fail_on: each of its words includes those before; "never" lets everything pass.

    above: a case that is slower fails only where the whole 95 % interval of one of its metrics that are slower lies
    above 1 + this.
    """

    fail_on: FailOn = "slower"
    above: float = 0.0

    def failing(self, comparison: Comparison) -> list[tuple[ArmComparison, CaseComparison]]:
        """The cases that do not pass, with their arms.

        All of them where no case could be told, since none was compared, or by but one process on a side, or while the
        machine was too busy; and those that fail more often on one side.
        """
        if self.fail_on == "never":
            return []
        every = [(arm, case) for arm in comparison.all_arms for case in arm.cases]
        if all(case.is_untellable for _, case in every):
            return every
        return [(arm, case) for arm, case in every if self._fails(case)]

    def passes(self, comparison: Comparison) -> bool:
        """Whether there was anything to compare, and no case fails."""
        return self.fail_on == "never" or bool(comparison.cases and not self.failing(comparison))

    def _fails(self, case: CaseComparison) -> bool:
        if case.fails_more or self._is_slower(case):
            return True
        if self.fail_on == "slower" or not case.estimates:
            return False
        return case.verdict in DIFFERENT or (self.fail_on == "inconclusive" and case.verdict == "inconclusive")

    def _is_slower(self, case: CaseComparison) -> bool:
        if case.verdict != "slower":
            return False
        lows = [each.interval[0] for each in case.estimates if each.outcome == "slower" and each.interval]
        return max(lows, default=math.inf) > 1 + self.above
