"""An arm beside the baseline as tables: a row a case, or, of many cases, how far apart they are by primitive."""

from __future__ import annotations

import math
from collections import Counter
from statistics import geometric_mean
from typing import TYPE_CHECKING

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Note, Table
from primbench.report.headline import what_is_judged
from primbench.report.signs import StyledCell
from primbench.report.verdicts import heading, in_words, shown_estimate, telling, why
from primbench.spec.naming import names_of
from primbench.units import UNKNOWN, format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.compare.ratio import Estimate

MOST_CASES = 60  # that have a row each unless all rows are asked for
MOST_TOLD = 10  # rows of those that differ most; and of a reason that stands in its rows, not once below them
WITHIN = (0.01, 0.03, 0.10)


def arm_tables(arm: ArmComparison, comparison: Comparison, notes: Sequence[Note], *, every_row: bool) -> list[Table]:
    """notes: below the last one. every_row: however many cases there are."""
    often = _often(arm)
    notes = [*(Note(f"inconclusive in {count} cases: {reason}") for reason, count in often.items()), *notes]
    named = list(zip(names_of([case.case for case in arm.cases]), arm.cases, strict=True))
    pairs = max((each.pairs for each in arm.estimates), default=0)
    title = f"{arm.name} against {comparison.baseline}{_place(arm)}  ({_number_of(pairs, comparison)}; "
    if every_row or len(named) <= MOST_CASES:
        title += "ratio of times, with its 95 % interval)"
        return [Table(title, *_rows_of(named, arm, comparison, often), notes)]
    most = sorted((each for each in named if each[1].deciding), key=lambda each: -_distance(each[1].deciding))
    rest = f"all {len(named)} cases have a row by `primbench compare --all`, and in --csv and --json"
    return [
        _by_primitive(arm, f"{title}cases by how far the ratio of their times is from 1)"),
        Table(
            f"the {MOST_TOLD} that differ most",
            *_rows_of(most[:MOST_TOLD], arm, comparison, often),
            [Note(rest), *notes],
        ),
    ]


def _often(arm: ArmComparison) -> dict[str, int]:
    """What keeps so many cases from a verdict that it is told once, below their rows, and how many."""
    counts = Counter(reason for case in arm.cases if (reason := why(case)))
    return {reason: n for reason, n in counts.items() if n > MOST_TOLD} if len(arm.cases) > MOST_CASES else {}


def _place(arm: ArmComparison) -> str:
    """The backend and device of all cases, where those do not stand in their names."""
    places = {f"  {case.case.backend} {case.case.device}" for case in arm.cases}
    return places.pop() if len(places) == 1 else ""


def _number_of(pairs: int, comparison: Comparison) -> str:
    if comparison.paired:
        return f"{pairs} {what_is_judged(comparison, pairs)}"
    if comparison.sessions and comparison.has_sessions:
        return f"unpaired, sessions: {comparison.sessions[0]} and {comparison.sessions[1]}"
    return f"unpaired, {'runs' if comparison.has_runs else 'processes'} a side: at least {pairs}"


def _distance(found: Estimate | None) -> float:
    return abs(math.log(found.ratio)) if found else 0.0


def _by_primitive(arm: ArmComparison, title: str) -> Table:
    """By the primary metric of each case."""
    cases: dict[str, list[CaseComparison]] = {}
    for case in arm.cases:
        cases.setdefault(case.case.primitive, []).append(case)
    columns = ["primitive", "cases", *(f"within {each:.0%}" for each in WITHIN), "geometric mean", "verdicts"]
    rows = [_summed(name, found) for name, found in cases.items()]
    return Table(title, columns, [*rows, *([_summed("all", arm.cases)] if len(rows) > 1 else [])], [])


def _summed(name: str, cases: Sequence[CaseComparison]) -> list[str]:
    ratios = [case.primary.ratio for case in cases if case.primary]
    within = [sum(abs(math.log(each)) <= math.log1p(limit) for each in ratios) for limit in WITHIN]
    counts = Counter(in_words(case.verdict) if case.verdict else "not compared" for case in cases)
    verdicts = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    mean = shown_ratio(geometric_mean(ratios)) if ratios else UNKNOWN
    return [name, str(len(cases)), *map(str, within), mean, verdicts]


def _rows_of(
    named: Sequence[tuple[str, CaseComparison]], arm: ArmComparison, comparison: Comparison, often: Collection[str]
) -> tuple[list[str], list[list[str]]]:
    """The columns and rows; of each case the metric that decided, with the verdict, and others that say something else.

    often: what is told elsewhere of why cases have no verdict.
    """
    with_noise = any(each.noise for each in arm.estimates)
    noise = ["noise"] if with_noise else []
    pairs = max((each.pairs for each in arm.estimates), default=0)
    rows = [row for name, case in named for row in _rows(name, case, pairs, often, with_noise=with_noise)]
    return ["case", "metric", comparison.baseline, arm.name, "ratio", *noise, "verdict"], rows


def _rows(
    name: str, case: CaseComparison, pairs: int, often: Collection[str], *, with_noise: bool
) -> Iterator[list[str]]:
    """Table rows of a case, one for each metric shown. pairs: as in the title; fewer are said in the row."""
    if not case.estimates:
        yield [name, *[UNKNOWN] * (5 if with_noise else 4), StyledCell("not compared (!)", "open")]
    for estimate, said in telling(case, with_why=why(case) not in often):
        noise = [shown_interval(estimate.noise)] if with_noise else []
        is_first = estimate is case.deciding
        words = said + (f", by {estimate.pairs} pairs" if estimate.pairs < pairs else "")
        words += " (!)" if case.reason and is_first else ""
        times = [format_time(each_s) for each_s in (estimate.baseline_s, estimate.arm_s)]
        yield [name if is_first else "", heading(estimate.metric), *times, shown_estimate(estimate), *noise, words]
