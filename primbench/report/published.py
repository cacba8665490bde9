"""What a study that was published says, beside what the same cases show here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.claims import answer, interval_of, ratio_of
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Note, Table
from primbench.report.verdicts import shown_estimate
from primbench.spec.naming import name_of
from primbench.units import UNKNOWN, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import Comparison
    from primbench.compare.published import TestedClaim
    from primbench.compare.ratio import Estimate
    from primbench.spec.case import Case
    from primbench.spec.published import Claim

COLUMNS = ["case", "arm", "samples", "mean", "min", "max", "std", "ratio", "what was published"]
NOTE = (
    "mean, min, max and std are of all samples; ratio: of the primary metric, as above; reproduced is a whole interval "
    "in the published one, or within the margin of it, not reproduced one wholly outside"
)


def published_table(comparison: Comparison) -> Table | None:
    """A row a claim, with the published ratio, and below it one for each case and arm here; None without a claim."""
    found = comparison.published
    if found is None or not found.claims:
        return None
    rows = [row for beside in found.claims for row in _rows(beside, comparison)]
    cautions = dict.fromkeys(
        Note(f"{each.claim.says}: {each.claim.caution}", "marked") for each in found.claims if each.claim.caution
    )
    return Table.of_rows("Published, and the same here", COLUMNS, rows, [Note(NOTE), *cautions], how=found.source)


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


def _rows(beside: TestedClaim, comparison: Comparison) -> Iterator[list[str]]:
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
