"""What a study that was published says, beside what the same cases show here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.shown import shown_ratio
from primbench.report.table import Table
from primbench.report.verdicts import shown_estimate, shown_verdict
from primbench.spec.naming import name_of
from primbench.units import UNKNOWN, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import Comparison
    from primbench.compare.published import Beside, CaseElapsed, Elapsed

COLUMNS = ["case", "arm", "samples", "mean", "min", "max", "std", "ratio", "verdict"]


def published_table(comparison: Comparison) -> Table | None:
    """A row a claim, in whose ratio is the published one, and below it one for each case and arm here."""
    found = comparison.published
    if found is None:
        return None
    rows = [row for beside in found.claims for row in _rows(beside, comparison)]
    cautions = dict.fromkeys(
        f"! {each.claim.says}: {each.claim.caution}" for each in found.claims if each.claim.caution
    )
    title = f"Published, and the same here  ({found.source})"
    return Table(
        title, COLUMNS, rows, ["mean, min, max and std are of all samples; ratio and verdict as above", *cautions]
    )


def _rows(beside: Beside, comparison: Comparison) -> Iterator[list[str]]:
    ratio = UNKNOWN if beside.claim.ratio is None else shown_ratio(beside.claim.ratio)
    measured = "" if beside.cases else "; not measured here"
    yield ["published", *[""] * 6, ratio, f"{beside.claim.says}{measured}"]
    for case in beside.cases:
        for number, each in enumerate(case.elapsed):
            yield _row(case, each, comparison, is_first=not number)


def _row(case: CaseElapsed, each: Elapsed, comparison: Comparison, *, is_first: bool) -> list[str]:
    times = (each.mean_s, each.min_s, each.max_s, each.std_s)
    shown = [UNKNOWN if seconds is None else format_time(seconds) for seconds in times]
    name = name_of(case.case) if is_first else ""
    return [name, each.arm, str(each.samples), *shown, *_verdict(case, each, comparison)]


def _verdict(case: CaseElapsed, each: Elapsed, comparison: Comparison) -> tuple[str, str]:
    arms = [*comparison.arms, *([comparison.again] if comparison.again else [])]
    for arm in arms:
        for found in arm.cases:
            if arm.name == each.arm and found.case == case.case and found.deciding:
                return shown_estimate(found.deciding), shown_verdict(found)
    return "", ""
