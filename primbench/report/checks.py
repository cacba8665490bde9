"""The cases of a comparison as tests that pass or fail, for servers that show these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.document import Check
from primbench.report.verdicts import name_of, shown_estimate, shown_verdict

if TYPE_CHECKING:
    from primbench.compare.comparison import Comparison
    from primbench.compare.gate import Gate, Gated


def checks(comparison: Comparison, gate: Gate) -> list[Check]:
    """One a case of an arm: those fail that the gate does not let pass; of the others, what is not told is open."""
    return [_check(each, comparison.baseline) for each in gate.cases(comparison)]


def _check(gated: Gated, baseline: str) -> Check:
    arm, case, passes = gated
    found = case.deciding
    words = [shown_verdict(case), shown_estimate(found) if found else None, case.reason]
    is_told = case.verdict not in (None, "inconclusive")
    return Check(
        group=f"{arm.name} against {baseline}",
        name=name_of(case.case),
        state="failed" if not passes else "passed" if is_told else "open",
        words="; ".join(filter(None, words)),
    )
