"""A comparison for people and for other programs: a table an arm, what explains its differences, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.gate import SLOWER, Gate, Gated
from primbench.report.arm_notes import beside, notes_of
from primbench.report.arm_tables import arm_tables, published_table
from primbench.report.cautions import cautions
from primbench.report.document import Check, Document, Note, Section
from primbench.report.headline import headline, tone
from primbench.report.verdicts import shown_estimate, shown_verdict, why
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.compare.ratio import Estimate
    from primbench.report.document import Table


def document(
    comparison: Comparison, gate: Gate = SLOWER, page: Callable[[], Document] | None = None, *, every_row: bool = False
) -> Document:
    """A row an estimate: times in seconds, ratios of times.

    verdict, decided_by, reason: of the case, the same in all its rows. The whole has every estimate and
    difference of the places in it. gate: what its checks pass. page: with what was compared. every_row: of its tables.
    """
    again = [comparison.again] if comparison.again else []
    return Document(
        title=f"{', '.join(arm.name for arm in comparison.arms)} against {comparison.baseline}",
        answer=Note(headline(comparison), tone=tone(comparison)),
        beside=[*left_out(comparison)],
        sections=lambda: _sections(comparison, every_row=every_row),
        rows=lambda: [row for arm in [*comparison.arms, *again] for row in flat(comparison.baseline, arm)],
        checks=lambda: checks(comparison, gate),
        value={"headline": headline(comparison)} | asdict(comparison),
        page=page,
    )


def _sections(comparison: Comparison, *, every_row: bool) -> list[Section]:
    """What has to be known before any verdict, the tables, and what else was found."""
    published = published_table(comparison)
    tables = [*_tables(comparison, every_row=every_row), *([published] if published else [])]
    notes = Section("", [*map(Note, comparison.notes)])
    return [*(Section("", caution) for caution in cautions(comparison)), Section("", tables), notes]


def flat(baseline: str, arm: ArmComparison) -> Iterator[dict[str, object]]:
    """One flat row, column -> value, for each estimate of an arm."""
    for case in arm.cases:
        yield from (_flat(baseline, arm, case, estimate) for estimate in case.estimates)


def _flat(baseline: str, arm: ArmComparison, case: CaseComparison, found: Estimate) -> dict[str, object]:
    of_all = found.left_out.interval if found.left_out else None
    intervals = {
        "interval": found.interval, "interval90": found.interval90, "noise": found.noise, "interval_of_all": of_all,
    }  # fmt: skip
    ends = {
        f"{name}_{end}": interval[number] if interval else None
        for name, interval in intervals.items()
        for number, end in enumerate(("low", "high"))
    }
    alike = ("metric", "primary", "judges", "pairs", "baseline_s", "arm_s", "ratio")
    others = ("margin", "q", "outcome", "minimum_detectable", "pairs_needed", "at_full_speed")
    return (
        {"baseline": baseline, "arm": arm.name, "effect": arm.effect}
        | {"primitive": case.case.primitive, "backend": case.case.backend, "device": case.case.device}
        | {name: getattr(found, name) for name in alike}
        | ends
        | {name: getattr(found, name) for name in others}
        | {"ratio_of_all": found.left_out.ratio if found.left_out else None}
        | {f"slowed_{name}": getattr(case.slowed, name, None) for name in ("baseline", "arm", "are_alike")}
        | {"verdict": case.verdict, "decided_by": case.decided_by, "reason": why(case)}
        | dict(case.case.parameters)
        | {f"label_{name}": value for name, value in case.case.labels.items()}
    )


def _tables(comparison: Comparison, *, every_row: bool) -> Iterator[Table]:
    """Those of each arm; none of an arm of which there is no case, or every one is left out."""
    for arm in comparison.all_arms:
        if arm.is_compared:
            others = beside(arm) if any(each.pairs for each in arm.estimates) else ()
            notes = [*notes_of(arm, comparison), *map(Note, others)]
            yield from arm_tables(arm, comparison, notes, every_row=every_row)


def left_out(comparison: Comparison) -> Iterator[Note]:
    """A line an arm that has no table, each reason once."""
    for arm in comparison.all_arms:
        if arm.cases and not arm.is_compared:
            reasons = dict.fromkeys(case.reason for case in arm.cases if case.reason)
            yield Note(f"{arm.name} is not compared with {comparison.baseline}: {'; '.join(reasons)}", "marked")


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
