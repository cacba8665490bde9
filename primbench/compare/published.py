"""What was published of cases, and how long these take in each arm here, with the statistics that papers print."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from primbench.compare.sides import identity
from primbench.spec.case import Case
from primbench.spec.published import Claim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.sides import Side
    from primbench.results.record import Record
    from primbench.spec.published import Published


class Elapsed(msgspec.Struct, frozen=True, kw_only=True):
    """Of all samples of a case in one arm, those of slow moments among them."""

    arm: str
    samples: int
    mean_s: float
    min_s: float
    max_s: float
    std_s: float | None
    """Standard deviation of the samples, by n - 1; None of one."""
    overhead: float | None
    """How much longer: the mean over the baseline's mean, less 1."""


class CaseElapsed(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of a case in each arm."""

    case: Case
    """The case as the baseline ran it first."""
    elapsed: list[Elapsed]


class TestedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, and what was measured of it: no cases where nothing was."""

    claim: Claim
    cases: list[CaseElapsed]


class PublishedBeside(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    claims: list[TestedClaim]


def beside_published(published: Published, sides: Sequence[Side]) -> PublishedBeside:
    """sides: the baseline first."""
    claims = [TestedClaim(claim=claim, cases=list(_cases(claim.id, sides))) for claim in published.claims]
    return PublishedBeside(source=published.source, claims=claims)


def _cases(label: str | None, sides: Sequence[Side]) -> Iterator[CaseElapsed]:
    for records in sides[0].cases.values():
        case = records[0].case
        if label is None or case.labels.get("id") != label:
            continue
        found = {side.name: _samples_s(side.cases.get(identity(case), [])) for side in sides}
        if samples_s := found[sides[0].name]:
            first_s = statistics.fmean(samples_s)
            elapsed = [_elapsed(arm, samples_s, first_s) for arm, samples_s in found.items() if samples_s]
            yield CaseElapsed(case=case, elapsed=elapsed)


def _samples_s(records: Sequence[Record]) -> list[float]:
    """Of the main metric, of all processes."""
    mains = [record.measurement.main for record in records if record.measurement]
    return [each for main in mains if main for each in main.samples_s]


def _elapsed(arm: str, samples_s: Sequence[float], first_s: float) -> Elapsed:
    mean_s = statistics.fmean(samples_s)
    return Elapsed(
        arm=arm,
        samples=len(samples_s),
        mean_s=mean_s,
        min_s=min(samples_s),
        max_s=max(samples_s),
        std_s=statistics.stdev(samples_s) if len(samples_s) > 1 else None,
        overhead=mean_s / first_s - 1,
    )
