"""The record of a case, by what came of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from primbench.results.record import Record

if TYPE_CHECKING:
    from primbench.spec.case import Case
    from primbench.workers.protocol import Outcome


def now() -> str:
    """In UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def record_of(case: Case, worker: int | None, outcome: Outcome, started_utc: str, duration_s: float) -> Record:
    return Record(
        case=case,
        status=outcome.status,
        reason=outcome.reason,
        measurement=outcome.measurement,
        worker=worker,
        started_utc=started_utc,
        duration_s=round(duration_s, 6),
        later=outcome.later,
    )


def without_worker(case: Case, status: Literal["failed", "skipped"], reason: str) -> Record:
    return Record(case=case, status=status, reason=reason, started_utc=now(), duration_s=0.0)
