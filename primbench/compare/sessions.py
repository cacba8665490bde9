"""Sessions: runs on one start of a machine, close together in time.

From session to session a machine is faster or slower by some percent: its neighbours, its temperature, where its kernel
put things when it started. Where the runs of one place were in other sessions than those of the other, that cannot be
told from the place; only the scatter between sessions of one place says how much it may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import geometric_mean
from typing import TYPE_CHECKING

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.compare.matching import CountedRatio
    from primbench.results.file import Results

GAP = timedelta(hours=6)
"""Between two runs of one session, at most."""


@dataclass(frozen=True)
class RunsOfBoot:
    """Runs in one boot of a machine."""

    boot: str | None
    first: datetime
    """When the first of them began."""
    last: datetime
    """When the last of them began."""
    runs: frozenset[int]
    """Numbers of the runs."""

    def meets(self, other: RunsOfBoot) -> bool:
        """Whether what was so of one was so of the other: on one start of a machine, or, of two, at the same time."""
        gap = GAP if self.boot == other.boot else timedelta()
        return self.first - gap <= other.last and other.first <= self.last + gap


def sessions_of(runs: Sequence[Results]) -> list[RunsOfBoot]:
    return sessions_at([(each.header.environment.machine.boot_id, began(each.header.started_utc)) for each in runs])


def sessions_at(runs: Sequence[tuple[str | None, datetime]]) -> list[RunsOfBoot]:
    """runs: the id of the boot of each, None where it is not known, and when it began."""
    found: dict[str | None, list[RunsOfBoot]] = {}
    for number, (boot, time) in sorted(enumerate(runs), key=lambda each: each[1][1]):
        of_boot = found.setdefault(boot, [])
        before = of_boot.pop() if of_boot and time - of_boot[-1].last <= GAP else None
        first, others = (before.first, before.runs) if before else (time, frozenset[int]())
        of_boot.append(RunsOfBoot(boot, first, time, others | {number}))
    return [session for of_boot in found.values() for session in of_boot]


def began(started_utc: str) -> datetime:
    """As a file has it; the beginning of 1970 where it does not say."""
    try:
        found = datetime.fromisoformat(started_utc)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def are_together(one: Sequence[RunsOfBoot], other: Sequence[RunsOfBoot]) -> bool:
    """Whether each session of either place was one of the other place, too."""
    return all(
        any(session.meets(each) for each in theirs)
        for ours, theirs in ((one, other), (other, one))
        for session in ours
    )  # fmt: skip


def few(one: Sequence[RunsOfBoot], other: Sequence[RunsOfBoot]) -> str:
    """What to say of how many runs and sessions a comparison is by; "" where these are enough."""
    runs = min(sum(len(session.runs) for session in sessions) for sessions in (one, other))
    if not are_together(one, other):
        counts = f"{len(one)} and {len(other)} sessions, runs on one start of a machine within {GAP.seconds // 3600} h"
        if max(len(one), len(other)) > 1:
            return f", and judged by the scatter between {counts} of each other"
        days = " and ".join(f"{sessions[0].first:%Y-%m-%d %H:%M}" for sessions in (one, other))
        return f", and each of one session ({days} UTC), so that what differs may be the day and not the place"
    return (
        "; of one run a side no difference is certain, as a machine is not equally fast at all times"
        if runs == 1
        else ""
    )


@dataclass(frozen=True)
class BySession:
    """A ``matching.Ratio`` of sessions: Student's t of two samples, whose scatter is taken to be one.

    So a single session of one place can be set beside several of the other.
    """

    baseline: Sequence[RunsOfBoot]
    arm: Sequence[RunsOfBoot]

    def __call__(self, arm: Mapping[int, float], baseline: Mapping[int, float]) -> CountedRatio | None:
        """The count is of the sessions that tell of scatter, which are one more than there are degrees of freedom."""
        of_arm, of_baseline = _means(arm, self.arm), _means(baseline, self.baseline)
        if not of_arm or not of_baseline:
            return None
        return stats.pooled(of_arm, of_baseline), len(of_arm) + len(of_baseline) - 1


def _means(of: Mapping[int, float], sessions: Sequence[RunsOfBoot]) -> list[float]:
    """One number a session. of: by run, or, of a single run, by process."""
    if sum(len(session.runs) for session in sessions) == 1:
        return [geometric_mean(of.values())] if of else []
    found = [[of[run] for run in sorted(session.runs) if run in of] for session in sessions]
    return [geometric_mean(values) for values in found if values]
