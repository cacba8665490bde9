"""Whether opening a file takes longer in one place: that, every worker has timed at its start."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from primbench.compare.cause import SYMPTOM, Cause
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side

DEARER = 1.05  # times as much is another cost: readings of one place differ by 2 %, but for those that were disturbed
FEWEST = 3  # workers on a side
CALLS = 4  # on each file that whoever looks at open() may look at, too: stat, read and close


def dearer_opens(case: CaseComparison, baseline: Side, side: Side) -> Iterator[Cause]:
    """Named where opening moves so much of the case that it can be what moved."""
    problem = case.case.known_problem()
    files = problem.opened_files() if problem else None
    if problem is None or not files or case.primary is None:
        return
    field = "open_temporary_s" if problem.work == "data loading" else "open_file_s"
    one_s, other_s = (_readings(case, each, field) for each in (baseline, side))
    if _is_dearer(other_s, one_s):
        yield _cause(side.name, baseline.name, other_s, one_s, files / case.primary.baseline_s)
    elif _is_dearer(one_s, other_s):
        yield _cause(baseline.name, side.name, one_s, other_s, files / case.primary.arm_s).of_baseline()


def _readings(case: CaseComparison, side: Side, field: str) -> list[float]:
    workers = [worker for _, worker in side.workers_of(case.case.backend, case.case.device)]
    found = [getattr(worker.environment.confinement, field) for worker in workers]
    return [each for each in found if each is not None]


def _is_dearer(here_s: Sequence[float], there_s: Sequence[float]) -> bool:
    """In each of its workers: what disturbs a reading makes it longer, and may have done so in most of one place."""
    if min(len(here_s), len(there_s)) < FEWEST:
        return False
    return min(here_s) > DEARER * statistics.median(there_s)


def _cause(here: str, there: str, here_s: Sequence[float], there_s: Sequence[float], files_per_s: float) -> Cause:
    taken_s, usual_s = statistics.median(here_s), statistics.median(there_s)
    return Cause(
        f"opening a file takes {format_time(taken_s)} in {here}, {format_time(usual_s)} in {there}: a sandbox such as "
        "Landlock, a scanner or a watcher of files looks at each",
        at_least=1.0,
        at_most=1 + CALLS * (taken_s - usual_s) * files_per_s,
        title=f"what looks at each file that is opened in {here}",
        upstream=SYMPTOM,
    )
