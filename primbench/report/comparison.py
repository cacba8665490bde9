"""A comparison for people and for other programs: a table an arm, what explains its differences, what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.gate import SLOWER, Gate
from primbench.compare.ratio import MOST_UNSEEN, WITHIN_MARGIN
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.arm_tables import arm_tables, published_table
from primbench.report.cautions import cautions
from primbench.report.checks import checks
from primbench.report.differing import beside, effect
from primbench.report.document import Document, Note, Section, typed
from primbench.report.headline import headline, tone, what_is_judged
from primbench.report.learnt import learnt
from primbench.report.step import step
from primbench.report.verdicts import in_words, why
from primbench.results.metrics import METRICS
from primbench.spec.naming import name_of
from primbench.stats import draws_needed, quantile
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Explanation
    from primbench.compare.ratio import Estimate
    from primbench.report.document import Table

MOST_EXPLAINED = 5


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


def notes_of(arm: ArmComparison, comparison: Comparison) -> Iterator[Note]:
    """What its cases come to together, and what explains them; without what else differs between the places."""
    yield from _reasons(arm)
    yield from map(Note, (*_counts(arm), *_mean(arm, comparison), *learnt(arm, comparison.baseline)))
    if arm.step is not None:
        yield from map(Note, step(arm.step, comparison.baseline, arm.name))
    if any(each.pairs for each in arm.estimates):
        yield from (*map(Note, effect(arm, comparison)), *_explanations(arm))


def _reasons(arm: ArmComparison) -> Iterator[Note]:
    """What became of cases in some or all processes, each reason once."""
    cases: dict[str, list[CaseComparison]] = {}
    for case in arm.cases:
        if case.reason:
            cases.setdefault(case.reason, []).append(case)
    for reason, found in cases.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Note(f"{name_of(found[0].case)}{more}: {reason}", "marked")


def _counts(arm: ArmComparison) -> Iterator[str]:
    counts = Counter(in_words(case.verdict) if case.verdict else "not compared" for case in arm.cases)
    if len(arm.cases) > 1:
        yield f"{len(arm.cases)} cases: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())
    yield from _unseen(arm)
    yield from _borrowed(arm)


def _unseen(arm: ArmComparison) -> Iterator[str]:
    """What share of processes may be slow where places are shown to be alike: the largest, once for all cases."""
    alike = [case.deciding for case in arm.cases if case.deciding and case.verdict in WITHIN_MARGIN]
    most = max(alike, key=lambda found: found.unseen or 0.0, default=None)
    if most is not None and most.unseen is not None:
        more = f"; {draws_needed(MOST_UNSEEN)} pairs tell of the places" if most.is_of_few else ""
        yield (
            f"alike by {most.pairs} processes a side: if none of these was slow, up to {format_percent(most.unseen)} "
            f"of a place's may be{more}"
        )


def _borrowed(arm: ArmComparison) -> Iterator[str]:
    """What intervals stand on beside a case's own pairs."""
    deciding = [case.deciding for case in arm.cases if case.deciding and case.deciding.freedom]
    borrowed = [found.borrowed_freedom for found in deciding]
    if borrowed and max(borrowed) > 0:
        own = [(found.freedom or 0.0) - found.borrowed_freedom for found in deciding]
        yield (
            f"intervals stand on {quantile(own, 0.5):.0f} degrees of freedom of a case's own pairs and "
            f"{quantile(borrowed, 0.5):.1f} borrowed from how the other cases scatter (medians)"
        )


def _mean(arm: ArmComparison, comparison: Comparison) -> Iterator[str]:
    if arm.mean is not None and arm.mean.cases > 1:
        interval = f" {shown_interval(arm.mean.interval)}" if arm.mean.interval else ""
        what = what_is_judged(comparison, arm.mean.pairs)
        mean = f"{shown_ratio(arm.mean.ratio)}{interval}"
        of = ", slow samples included" if arm.mean.of_all_samples else ""
        of += (
            ", by their medians"
            if any(case.decided_by and METRICS[case.decided_by].is_mean for case in arm.cases)
            else ""
        )
        yield f"geometric mean of {arm.mean.cases} cases{of}: {mean}, over {arm.mean.pairs} {what}"


def _severity(case: CaseComparison) -> tuple[int, float]:
    """The worst comes first, of the slower ones that which is so by most; others stay as they are."""
    order = ("slower", "inconclusive", "faster")  # what may yet be slower, or had to wait, before what is no harm
    place = order.index(case.verdict) if case.verdict in order else len(order)
    return place, -case.deciding.ratio if case.verdict == "slower" and case.deciding else 0.0


def _explanations(arm: ArmComparison) -> Iterator[Note]:
    explained = [(case, case.explanation) for case in sorted(arm.cases, key=_severity) if case.explanation]
    if explained:
        told = (*_moved(explained), *_causes([explanation for _, explanation in explained]), *_noise(explained))
        yield from map(Note, told)
        nexts = dict.fromkeys(each.next_experiment for _, each in explained if each.next_experiment)
        yield from (Note("next:", command=typed(shlex.split(command))) for command in list(nexts)[:1])


def _moved(explained: Sequence[tuple[CaseComparison, Explanation]]) -> Iterator[str]:
    for case, explanation in explained[:MOST_EXPLAINED]:
        moved = f"{' and '.join(explanation.parts)} moved" if explanation.parts else _unmoved(case)
        yield f"{name_of(case.case)}: {': '.join(filter(None, (moved, '; '.join(explanation.evidence))))}"
    if len(explained) > MOST_EXPLAINED:
        yield f"and {len(explained) - MOST_EXPLAINED} more cases: --json has all"


def _unmoved(case: CaseComparison) -> str:
    if case.fails_more:
        return f"fails more often in {case.fails_more}"
    return "no difference is certain" if case.estimates else "refused in one place"


def _causes(explanations: Sequence[Explanation]) -> Iterator[str]:
    """A line for each cause, whichever cases it is of."""
    causes = dict.fromkeys(cause for explanation in explanations for cause in explanation.causes)
    yield from (f"can cause it: {cause}" for cause in causes)
    if not causes:
        yield "no known cause in what differs between the places"


def _noise(explained: Sequence[tuple[CaseComparison, Explanation]]) -> Iterator[str]:
    for case, explanation in explained[:MOST_EXPLAINED]:
        if explanation.noise:
            yield f"or what others on the machine did to {name_of(case.case)}: {'; '.join(explanation.noise)}"
