"""Whether system calls, or opening a file, take longer in one place, and who makes them so, as far as that is seen.

Every worker has timed some at its start. What looks at each call, such as a tracer, makes longer what is made of calls.
"""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import TYPE_CHECKING

from primbench.compare.beside import MOST_TIMES_A_CHEAP_CALL
from primbench.compare.sides import identity
from primbench.doctor.cause import SYMPTOM, Suspect
from primbench.environment.filesystems import TEMPORARY_FILES
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.environment.fingerprint import Environment

CHEAP = "getppid"
DEARER = 2.0  # times as much, beyond what the CPU was slower: readings of one place lie within 1.5 times each other
_UPSTREAM = 4.9  # before what is not timed, and how threads are pinned
_UNSEEN = "what slows them cannot be seen from inside (a tracer, audit or a filter)"
DEARER_OPEN = 1.05  # readings of one place differ by 2 %, but for those that were disturbed
FEWEST_OPENS = 3  # workers on a side
CALLS = 4  # on each file that whoever looks at open() may look at, too: stat, read and close


def dear_calls(beside: Beside) -> Iterator[Suspect]:
    """Named of cases that are made of system calls, where each worker of one place says that they take longer.

    Where the cheap one does not, of another one: a filter may let that one pass, or a tracer not have asked for it.
    """
    of_each = ([*beside.each_way(partial(_dear, call, beside))] for call in _timed(beside))
    yield from next(filter(None, of_each), [])


def _timed(beside: Beside) -> list[str]:
    """The cheap call, and those that a case makes and the workers have timed; [] of one that is not made of calls."""
    problem = beside.problem
    if problem is None or beside.case.primary is None or not (problem.system_calls() or problem.system_call_count()):
        return []
    timed = dict.fromkeys(name for each in _places(beside, beside.baseline) for name in each.confinement.calls_s or {})
    return [CHEAP, *(name for name in timed if name in problem.system_calls())]


def _places(beside: Beside, side: Side) -> list[Environment]:
    return [worker.environment for worker in beside.workers(side)]


def _each_s(call: str, environments: Iterable[Environment]) -> list[float]:
    """What a call takes in each of the workers, as far as they have timed it."""
    confined = [each.confinement for each in environments]
    found = [each.system_call_s if call == CHEAP else (each.calls_s or {}).get(call) for each in confined]
    return [each for each in found if each is not None]


def _is_dearer(here_s: Sequence[float], there_s: Sequence[float], by: float, fewest: int = 1) -> bool:
    """In each of its workers: what disturbs a reading makes it longer, and may have done so in most of one place."""
    return min(len(here_s), len(there_s)) >= fewest and min(here_s) > by * statistics.median(there_s)


def _dear(call: str, beside: Beside, here: Side, there: Side) -> Iterator[Suspect]:
    one, other = _places(beside, here), _places(beside, there)
    of_one, of_other = _each_s(call, one), _each_s(call, other)
    tracers = _tracers(one) - _tracers(other)
    by = f"traced by process {_few(tracers)}" if tracers else _who_looks(call, one, other)
    if by is None or not _is_dearer(of_one, of_other, DEARER * max(1.0, _times_as_slow(beside, here, there))):
        return
    here_s, there_s = statistics.median(of_one), statistics.median(of_other)
    calls, case_s = beside.problem.system_call_count() if beside.problem else None, beside.time_s(there)
    more_s = (MOST_TIMES_A_CHEAP_CALL if call == CHEAP else 1) * (here_s - there_s)
    # Each call waits until its tracer runs: those of one process took 7 us, of another one 100 us.
    at_most = 1 + more_s * calls / case_s if calls and case_s and not tracers else math.inf
    what, title = ("system calls take", "system calls, which take") if call == CHEAP else (
        f"the system call {call} takes", f"the system call {call}, which takes"
    )  # fmt: skip
    costs = f"{format_time(here_s)} in {here.name} and {format_time(there_s)} in {there.name}: {by}"
    yield Suspect(f"{what} {costs}", 1.0, at_most, f"{title} {costs}", upstream=_UPSTREAM)


def _times_as_slow(beside: Beside, here: Side, there: Side) -> float:
    """The CPU of one place beside the other's, by loops that call nothing; 1 where none were timed."""
    one, other = (each.speed_of(identity(beside.case.case)) for each in (here, there))
    return one.full_s / other.full_s if one and other else 1.0


def _who_looks(call: str, here: Sequence[Environment], there: Sequence[Environment]) -> str | None:
    """Who looks at a call here but tracers; None where it is filters of all calls, which have a row of their own."""
    if watchers := {name for each in here for name in each.confinement.watchers or ()}:
        return f"events of the kernel are watched by process {_few(watchers)}"
    if _filters(here) != _filters(there):
        return None if call == CHEAP else "filters of system calls are others there"
    if more := _preloads(here) - _preloads(there):
        return f"they may go through {_few(more)}, loaded before all other libraries"
    return _UNSEEN


def _tracers(environments: Iterable[Environment]) -> set[str]:
    return {found for each in environments if (found := each.confinement.tracer) not in (None, "none")}


def _filters(environments: Iterable[Environment]) -> set[object]:
    return {(each.confinement.seccomp, each.confinement.seccomp_filters) for each in environments}


def _preloads(environments: Iterable[Environment]) -> set[str]:
    """Libraries that are loaded before all others, whose functions may be in the place of the C library's."""
    loaded = [libraries for each in environments for libraries in (each.software.preloads or {}).values()]
    return {library.name for libraries in loaded for library in libraries}


def _few(found: Iterable[str]) -> str:
    """Each worker may have one of its own."""
    first, *more = sorted(found)
    return f"{first} and {len(more)} more" if more else first


def dearer_opens(beside: Beside) -> Iterator[Suspect]:
    """Named where opening moves so much of the case that it can be what moved."""
    problem, files = beside.problem, beside.problem.opened_files() if beside.problem else None
    if problem is None or not files or beside.case.primary is None:
        return
    field = "open_temporary_s" if problem.work == "data loading" else "open_file_s"
    one, other = (_opened(_places(beside, each), field) for each in (beside.baseline, beside.side))
    if one == other:  # else its name or file system may be what takes longer
        yield from beside.each_way(partial(_dear_opens, field, files, beside))


def _opened(environments: Sequence[Environment], field: str) -> set[object]:
    """What tells whether the same file was opened."""
    if field == "open_file_s":
        return {each.software.python_executable for each in environments}
    confined = [each.confinement for each in environments]
    return {((each.filesystems or {}).get(TEMPORARY_FILES), each.temporary_steps) for each in confined}


def _dear_opens(field: str, files: float, beside: Beside, here: Side, there: Side) -> Iterator[Suspect]:
    one, other = _places(beside, here), _places(beside, there)
    of_one, of_other = (
        [found for each in environments if (found := getattr(each.confinement, field)) is not None]
        for environments in (one, other)
    )
    calls = _each_s(CHEAP, one), _each_s(CHEAP, other)  # which a slower CPU makes longer as it does all else
    here_call_s, there_call_s = (statistics.median(each) if each else 0.0 for each in calls)
    times = here_call_s / there_call_s if there_call_s else 1.0  # a reading that was disturbed may be 0
    if _is_dearer(of_one, of_other, DEARER_OPEN * max(1.0, times), FEWEST_OPENS):
        here_s, there_s = statistics.median(of_one), statistics.median(of_other)
        yield Suspect(
            f"opening a file takes {format_time(here_s)} in {here.name}, {format_time(there_s)} in {there.name}: a "
            "sandbox such as Landlock, a scanner or a watcher of files looks at each",
            at_least=1.0,
            at_most=1 + CALLS * (here_s - there_s) * (files / beside.time_s(there)),
            title=f"what looks at each file that is opened in {here.name}",
            upstream=SYMPTOM + 0.5,  # after what is found in one place alone
        )
