"""Whether opening a file takes longer in one place: that, every worker has timed at its start."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from primbench.doctor.cause import SYMPTOM, Suspect
from primbench.environment.filesystems import TEMPORARY_FILES
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.environment.fingerprint import Environment

DEARER = 1.05  # times as much is another cost: readings of one place differ by 2 %, but for those that were disturbed
FEWEST = 3  # workers on a side
CALLS = 4  # on each file that whoever looks at open() may look at, too: stat, read and close


def dearer_opens(beside: Beside) -> Iterator[Suspect]:
    """Named where opening moves so much of the case that it can be what moved."""
    case, baseline, side, problem = beside.case, beside.baseline, beside.side, beside.problem
    files = problem.opened_files() if problem else None
    if problem is None or not files or case.primary is None:
        return
    field = "open_temporary_s" if problem.work == "data loading" else "open_file_s"
    one, other = (_places_of(case, each) for each in (baseline, side))
    if _opened(one, field) != _opened(other, field):
        return  # another file, whose name or file system may be what takes longer
    one_s, other_s = _readings(one, field), _readings(other, field)
    times = _times_as_slow(one, other)
    if _is_dearer(other_s, one_s, times):
        yield _cause(side.name, baseline.name, other_s, one_s, files / case.primary.baseline_s)
    elif _is_dearer(one_s, other_s, 1 / times):
        yield _cause(baseline.name, side.name, one_s, other_s, files / case.primary.arm_s).of_baseline()


def _places_of(case: CaseComparison, side: Side) -> list[Environment]:
    return [worker.environment for _, worker in side.workers_of(case.case.backend, case.case.device)]


def _times_as_slow(one: Sequence[Environment], other: Sequence[Environment]) -> float:
    """By the cheapest system call, which a slower CPU makes longer as it does all else; 1 where that is not known."""
    one_s, other_s = (_readings(each, "system_call_s") for each in (one, other))
    return statistics.median(other_s) / statistics.median(one_s) if one_s and other_s else 1.0


def _opened(environments: Sequence[Environment], field: str) -> set[object]:
    """What tells whether the same file was opened."""
    if field == "open_file_s":
        return {each.software.python_executable for each in environments}
    confined = [each.confinement for each in environments]
    return {((each.filesystems or {}).get(TEMPORARY_FILES), each.temporary_steps) for each in confined}


def _readings(environments: Sequence[Environment], field: str) -> list[float]:
    found = [getattr(each.confinement, field) for each in environments]
    return [each for each in found if each is not None]


def _is_dearer(here_s: Sequence[float], there_s: Sequence[float], times: float) -> bool:
    """In each of its workers: what disturbs a reading makes it longer, and may have done so in most of one place.

    times: as slow everything is here.
    """
    if min(len(here_s), len(there_s)) < FEWEST:
        return False
    return min(here_s) > DEARER * max(1.0, times) * statistics.median(there_s)


def _cause(here: str, there: str, here_s: Sequence[float], there_s: Sequence[float], files_per_s: float) -> Suspect:
    taken_s, usual_s = statistics.median(here_s), statistics.median(there_s)
    return Suspect(
        f"opening a file takes {format_time(taken_s)} in {here}, {format_time(usual_s)} in {there}: a sandbox such as "
        "Landlock, a scanner or a watcher of files looks at each",
        at_least=1.0,
        at_most=1 + CALLS * (taken_s - usual_s) * files_per_s,
        title=f"what looks at each file that is opened in {here}",
        upstream=SYMPTOM + 0.5,  # after what is found in one place alone
    )
