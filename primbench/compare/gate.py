"""What keeps a comparison from passing: the cases that ``--fail-on`` and ``--fail-above`` name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.compare.ratio import DIFFERENT
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.compare.ratio import Estimate

FailOn = Literal["slower", "different", "inconclusive", "never"]


class Gated(NamedTuple):
    """A case of an arm, and whether it passes."""

    arm: ArmComparison
    case: CaseComparison
    passes: bool


@dataclass(frozen=True)
class Gate:
    """Which verdicts make a command fail."""

    fail_on: FailOn = "slower"
    """Each of its words includes those before; "never" lets everything pass."""
    above: float | None = None
    """Instead of a case that is slower, one fails of which a metric differs for certain, the whole 95 % interval of its
    ratio lying above 1 + this.
    """

    def check(self, comparison: Comparison) -> None:
        """Raises InvalidRequest where a limit is asked of what cannot tell: it would neither fail nor pass for certain.

        Of equal places whose cases differ by 2 % from session to session, up to 43 % of gates at 5 % failed.
        """
        if self.above is not None and comparison.is_of_other_sessions:
            raise InvalidRequest(
                f"--fail-above of one session a side: what differs may be the day. {comparison.notes[-1]}; or run "
                f"{comparison.baseline} on several days, or after several starts of the machine: three tell of scatter"
            )

    def cases(self, comparison: Comparison) -> list[Gated]:
        """Every case of all arms, and whether it passes.

        None does where no case was told: none was compared, the machine was too busy, or too few pairs do not say that
        it passes. Nor does one that fails more often on one side, that has but one process there, or that would fail if
        one run of each place could tell, nor one whose output is wrong in a few bits.
        """
        untold = all(case.is_untellable or self._may_fail(case) for case in comparison.cases)
        return [
            Gated(arm, case, self.fail_on == "never" or not (untold or self._fails(case)))
            for arm in comparison.all_arms
            for case in arm.cases
        ]

    def passes(self, comparison: Comparison) -> bool:
        """Whether there is anything to compare, and every case passes."""
        cases = self.cases(comparison)
        return self.fail_on == "never" or (bool(cases) and all(each.passes for each in cases))

    def _fails(self, case: CaseComparison) -> bool:
        if case.fails_more or case.deviations or self._is_slower(case) or any(map(self._cannot_tell, case.estimates)):
            return True
        if self.fail_on == "slower" or not case.estimates:
            return False
        return case.verdict in DIFFERENT or (self.fail_on == "inconclusive" and case.verdict == "inconclusive")

    def _is_slower(self, case: CaseComparison) -> bool:
        if self.above is None:
            return case.verdict == "slower"
        return any(_is_above(each, self.above) for each in case.estimates)

    def _may_fail(self, case: CaseComparison) -> bool:
        """Whether it is undecided, and its interval holds what would fail."""
        found = case.deciding
        if found is None or case.verdict != "inconclusive" or found.interval is None:
            return False
        low, high = found.interval
        limit = 1 + self._limit(found)
        return high > limit or (self.fail_on == "different" and self.above is None and low < 1 / limit)

    def _limit(self, found: Estimate) -> float:
        return found.margin if self.above is None else self.above

    def _cannot_tell(self, found: Estimate) -> bool:
        """Whether what would fail by more runs, or may, is not told by so few."""
        if not found.judges or found.is_too_busy:
            return False
        return found.interval is None or (found.is_one_run and found.interval[0] > 1 + self._limit(found))


def _is_above(found: Estimate, limit: float) -> bool:
    return found.outcome in DIFFERENT and found.interval is not None and found.interval[0] > 1 + limit


SLOWER = Gate()
"""What stands where nothing else is asked for."""
