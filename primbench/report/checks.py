"""The cases of a comparison as tests that pass or fail, for servers that show these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Check
from primbench.report.verdicts import shown_estimate, shown_verdict
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.compare.comparison import CaseComparison, Comparison
    from primbench.compare.gate import Gate, Gated


def checks(comparison: Comparison, gate: Gate) -> list[Check]:
    """One a case of an arm, or one in all where none was compared.

    Those fail that the gate does not let pass; of the others, what is not told is open.
    """
    of_arm: dict[str, list[Gated]] = {}
    for gated in gate.cases(comparison):
        of_arm.setdefault(gated.arm.name, []).append(gated)
    return [check for arm, cases in of_arm.items() for check in _of_arm(f"{arm} against {comparison.baseline}", cases)]


def _of_arm(group: str, cases: Sequence[Gated]) -> list[Check]:
    if any(each.case.estimates for each in cases):
        return [_check(group, each.case, passes=each.passes) for each in cases]
    reasons = dict.fromkeys(each.case.reason for each in cases if each.case.reason)
    passes = all(each.passes for each in cases)
    return [Check(group, "all cases", "open" if passes else "failed", f"not compared; {'; '.join(reasons)}")]


def _check(group: str, case: CaseComparison, *, passes: bool) -> Check:
    found = case.deciding
    words = [shown_verdict(case), shown_estimate(found) if found else None, case.reason]
    is_told = case.verdict not in (None, "inconclusive")
    return Check(
        group=group,
        name=name_of(case.case),
        state="failed" if not passes else "passed" if is_told else "open",
        words="; ".join(filter(None, words)),
    )
