"""Arms beside the baseline as tables: a row a case, or sums by primitive of many, and what was published of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import geometric_mean
from typing import TYPE_CHECKING

from primbench.compare.claims import answer, interval_of, ratio_of
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Column, Note, Table, VerdictCell
from primbench.report.headline import what_is_judged
from primbench.report.verdicts import heading, in_words, shown_estimate, telling, why
from primbench.spec.naming import name_of, names_of
from primbench.units import UNKNOWN, format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.compare.published import TestedClaim
    from primbench.compare.ratio import Estimate
    from primbench.spec.case import Case
    from primbench.spec.published import Claim


MOST_CASES = 60  # that have a row each unless all rows are asked for
MOST_TOLD = 10  # rows of those that differ most; and of a reason that stands in its rows, not once below them
WITHIN = (0.01, 0.03, 0.10)


def arm_tables(arm: ArmComparison, comparison: Comparison, notes: Sequence[Note], *, every_row: bool) -> list[Table]:
    """notes: below the last one. every_row: however many cases there are."""
    often = _often(arm)
    notes = [*(Note(f"inconclusive in {count} cases: {reason}") for reason, count in often.items()), *notes]
    named = list(zip(names_of([case.case for case in arm.cases]), arm.cases, strict=True))
    pairs = max((each.pairs for each in arm.estimates), default=0)
    title, pairs_of = f"{arm.name} against {comparison.baseline}", _number_of(pairs, comparison)
    if every_row or len(named) <= MOST_CASES:
        how = f"{pairs_of}; ratio of times, with its 95 % interval"
        return [replace(_by_case(title, named, arm, comparison, often), shared=_place(arm), notes=notes, how=how)]
    most = sorted((each for each in named if each[1].deciding), key=lambda each: -_distance(each[1].deciding))
    rest = f"all {len(named)} cases have a row by `primbench compare --all`, and in --csv and --json"
    return [
        _by_primitive(arm, title, f"{pairs_of}; cases by how far the ratio of their times is from 1"),
        replace(
            _by_case(f"the {MOST_TOLD} that differ most", most[:MOST_TOLD], arm, comparison, often),
            notes=[Note(rest), *notes],
        ),
    ]


def _often(arm: ArmComparison) -> dict[str, int]:
    """What keeps so many cases from a verdict that it is told once, below their rows, and how many."""
    counts = Counter(reason for case in arm.cases if (reason := why(case)))
    return {reason: n for reason, n in counts.items() if n > MOST_TOLD} if len(arm.cases) > MOST_CASES else {}


def _place(arm: ArmComparison) -> list[str]:
    """The backend and device of all cases, where those do not stand in their names."""
    places = {f"{case.case.implementation} {case.case.device}" for case in arm.cases}
    return [*places] if len(places) == 1 else []


def _number_of(pairs: int, comparison: Comparison) -> str:
    if comparison.paired:
        return f"{pairs} {what_is_judged(comparison, pairs)}"
    if comparison.sessions and comparison.has_sessions:
        return f"unpaired, sessions: {comparison.sessions[0]} and {comparison.sessions[1]}"
    return f"unpaired, {'runs' if comparison.has_runs else 'processes'} a side: at least {pairs}"


def _distance(found: Estimate | None) -> float:
    return abs(math.log(found.ratio)) if found else 0.0


def _by_primitive(arm: ArmComparison, title: str, how: str) -> Table:
    """By the primary metric of each case."""
    cases: dict[str, list[CaseComparison]] = {}
    for case in arm.cases:
        cases.setdefault(case.case.primitive, []).append(case)
    columns = ["primitive", "cases", *(f"within {each:.0%}" for each in WITHIN), "geometric mean", "verdicts"]
    rows = [_summed(name, found) for name, found in cases.items()]
    rows += [_summed("all", arm.cases)] if len(rows) > 1 else []
    table = Table.of_rows(title, columns, rows, how=how, formats={"geometric mean": shown_ratio})
    return replace(table, shared=_place(arm))


def _summed(name: str, cases: Sequence[CaseComparison]) -> list[object]:
    ratios = [case.primary.ratio for case in cases if case.primary]
    within = [sum(abs(math.log(each)) <= math.log1p(limit) for each in ratios) for limit in WITHIN]
    counts = Counter(in_words(case.verdict) if case.verdict else "not compared" for case in cases)
    verdicts = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    return [name, len(cases), *within, geometric_mean(ratios) if ratios else None, verdicts]


def _by_case(
    title: str,
    named: Sequence[tuple[str, CaseComparison]],
    arm: ArmComparison,
    comparison: Comparison,
    often: Collection[str],
) -> Table:
    """Of each case the metric that decided, with the verdict, and others that say something else.

    often: what is told elsewhere of why cases have no verdict.
    """
    with_noise = any(each.noise for each in arm.estimates)
    pairs = max((each.pairs for each in arm.estimates), default=0)
    rows = [row for name, case in named for row in _rows(name, case, pairs, often)]
    cells = [*zip(*rows, strict=True)] or [()] * 7
    columns = [
        Column("case", cells[0]),
        Column("metric", cells[1]),
        Column(comparison.baseline, cells[2], format_time),
        Column(arm.name, cells[3], format_time),
        Column("ratio", cells[4], shown_estimate),
        *([Column("noise", cells[5], shown_interval)] if with_noise else []),
        Column("verdict", cells[6]),
    ]
    return Table(title, columns)


def _rows(name: str, case: CaseComparison, pairs: int, often: Collection[str]) -> Iterator[tuple[object, ...]]:
    """Table rows of a case, one for each metric shown. pairs: as in the title; fewer are said in the row."""
    if not case.estimates:
        yield name, *[None] * 5, VerdictCell("not compared (!)", "open")
    for found, said in telling(case, with_why=why(case) not in often):
        is_first = found is case.deciding
        more = f", by {found.pairs} pairs" if found.pairs < pairs else ""
        more += " (!)" if case.reason and is_first else ""
        first = name if is_first else ""
        yield first, heading(found.metric), found.baseline_s, found.arm_s, found, found.noise, said.with_words(more)


CLAIM_COLUMNS = ["case", "arm", "samples", "mean", "min", "max", "std", "ratio", "what was published"]
CLAIM_NOTE = (
    "mean, min, max and std are of all samples; ratio: of the primary metric, as above; reproduced is a whole interval "
    "in the published one, or within the margin of it, not reproduced one wholly outside"
)


def published_table(comparison: Comparison) -> Table | None:
    """A row a claim, with the published ratio, and below it one for each case and arm here; None without a claim."""
    found = comparison.published
    if found is None or not found.claims:
        return None
    rows = [row for beside in found.claims for row in _claim_rows(beside, comparison)]
    cautions = dict.fromkeys(
        Note(f"{each.claim.says}: {each.claim.caution}", "marked") for each in found.claims if each.claim.caution
    )
    return Table.of_rows(
        "Published, and the same here", CLAIM_COLUMNS, rows, [Note(CLAIM_NOTE), *cautions], how=found.source
    )


def shown_claim(claim: Claim) -> str:
    """The published ratio, with its interval where it has one."""
    if claim.slower:
        return "slower"
    ratio, interval = ratio_of(claim), interval_of(claim)
    if ratio is None:
        return UNKNOWN
    return f"{shown_ratio(ratio)} {shown_interval(interval)}" if interval else shown_ratio(ratio)


def estimate_of(case: Case, arm: str, comparison: Comparison) -> Estimate | None:
    """Of its primary metric, by which a claim is tested."""
    arms = [*comparison.arms, *([comparison.again] if comparison.again else [])]
    found = (each for one in arms if one.name == arm for each in one.cases if each.case == case)
    return next((each.primary for each in found), None)


def _claim_rows(beside: TestedClaim, comparison: Comparison) -> Iterator[list[str]]:
    """First what was published of each place, in the columns of what is measured here."""
    claim, arms = beside.claim, [arm.name for arm in comparison.arms]
    says = claim.says if beside.cases else f"{claim.says}; not measured here"
    yield ["published", *[""] * 6, shown_claim(claim), says]
    for value in filter(None, (claim.first, claim.second)):
        yield ["", value.place, str(value.runs), *_times(value.mean, value.min, value.max, value.std), "", ""]
    for case in beside.cases:
        name = name_of(case.case)
        for number, each in enumerate(case.elapsed):
            found = estimate_of(case.case, each.arm, comparison)
            ratio = shown_estimate(found) if found else ""
            told = answer(claim, found) if found and each.arm in arms else ""
            times = _times(each.mean_s, each.min_s, each.max_s, each.std_s)
            yield ["" if number else name, each.arm, str(each.samples), *times, ratio, told]


def _times(*seconds: float | None) -> list[str]:
    return [UNKNOWN if each is None else format_time(each) for each in seconds]
