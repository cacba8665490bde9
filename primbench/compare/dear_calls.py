"""Whether system calls take longer in one place, and who makes them so, as far as that is seen from inside.

Every worker has timed one at its start. What looks at each call, such as a tracer, makes longer what is made of calls.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

from primbench.compare.beside import MOST_TIMES_A_CHEAP_CALL
from primbench.compare.sides import identity
from primbench.doctor.cause import Suspect
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.environment.confinement import Confinement
    from primbench.problem import Problem

CHEAP = "getppid"
DEARER = 2.0  # times as much, beyond what the CPU was slower: readings of one place lie within 1.5 times each other
_UPSTREAM = 4.9  # before what is not timed, and how threads are pinned
_UNSEEN = "what slows them cannot be seen from inside (a tracer, audit or a filter)"


class _Calls(NamedTuple):
    """Of a side: its name, and what its workers say of who looks at calls.

    preloads: libraries that are loaded before all others, whose functions may be in the place of the C library's.
    """

    name: str
    confined: list[Confinement]
    preloads: set[str]

    def each_s(self, call: str) -> list[float]:
        """What a call takes in each of the workers, as far as they have timed it."""
        found = [each.system_call_s if call == CHEAP else (each.calls_s or {}).get(call) for each in self.confined]
        return [each for each in found if each is not None]

    def usual_s(self, call: str) -> float:
        return statistics.median(self.each_s(call))

    def seen(self, other: _Calls, call: str) -> str | None:
        """Who looks at a call here; None where it is filters of all of them, which have a row of their own."""
        tracers = self._tracers() - other._tracers()
        watchers = {name for each in self.confined for name in each.watchers or ()}
        if tracers:
            return f"traced by process {_few(tracers)}"
        if watchers:
            return f"events of the kernel are watched by process {_few(watchers)}"
        if self._filters() != other._filters():
            return None if call == CHEAP else "filters of system calls are others there"
        if more := self.preloads - other.preloads:
            return f"they may go through {_few(more)}, loaded before all other libraries"
        return _UNSEEN

    def _tracers(self) -> set[str]:
        return {each.tracer for each in self.confined if each.tracer not in (None, "none")}

    def _filters(self) -> set[object]:
        return {(each.seccomp, each.seccomp_filters) for each in self.confined}


def dear_calls(beside: Beside) -> Iterator[Suspect]:
    """Named of cases that are made of system calls, where each worker of one place says that they take longer.

    Where the cheap one does not, of another one: a filter may let that one pass, or a tracer not have asked for it.
    """
    case, problem = beside.case, beside.problem
    if problem is None or case.primary is None or not _is_made_of_calls(problem):
        return
    one, other = (_calls(case, each) for each in (beside.baseline, beside.side))
    times = _times_as_slow(case, beside.baseline, beside.side)
    of_each = ([*_dear(call, one, other, times, beside)] for call in (CHEAP, *_made(one, problem)))
    yield from next(filter(None, of_each), [])


def _made(side: _Calls, problem: Problem) -> list[str]:
    """Calls that a problem makes and the workers have timed."""
    timed = dict.fromkeys(name for each in side.confined for name in each.calls_s or {})
    return [name for name in timed if name in problem.system_calls()]


def _dear(call: str, one: _Calls, other: _Calls, times: float, beside: Beside) -> Iterator[Suspect]:
    """times: as slow the CPU was in the arm."""
    count, primary = beside.problem.system_call_count() if beside.problem else None, beside.case.primary
    if primary is None or not (one.each_s(call) and other.each_s(call)):
        return
    if min(other.each_s(call)) > DEARER * max(1.0, times) * one.usual_s(call):
        yield from _causes(call, other, one, count, primary.baseline_s)
    elif min(one.each_s(call)) > DEARER * max(1.0, 1 / times) * other.usual_s(call):
        yield from (cause.of_baseline() for cause in _causes(call, one, other, count, primary.arm_s))


def _few(found: Iterable[str]) -> str:
    """Each worker may have one of its own."""
    first, *more = sorted(found)
    return f"{first} and {len(more)} more" if more else first


def _is_made_of_calls(problem: Problem) -> bool:
    return bool(problem.system_calls() or problem.system_call_count())


def _calls(case: CaseComparison, side: Side) -> _Calls:
    workers = [worker for _, worker in side.workers_of(case.case.backend, case.case.device)]
    confined = [each.environment.confinement for each in workers]
    loaded = [each.environment.software.preloads or {} for each in workers]
    preloads = {library.name for each in loaded for libraries in each.values() for library in libraries}
    return _Calls(side.name, confined, preloads)


def _times_as_slow(case: CaseComparison, baseline: Side, side: Side) -> float:
    """The CPU of the arm beside the baseline's, by loops that call nothing; 1 where none were timed."""
    one, other = (each.speeds.get(identity(case.case)) for each in (baseline, side))
    return other.full_s / one.full_s if one and other else 1.0


def _causes(call: str, here: _Calls, there: _Calls, calls: int | None, case_s: float) -> Iterator[Suspect]:
    """calls: of the case at most, which takes so long where they are cheap."""
    seen = here.seen(there, call)
    if seen is None:
        return
    here_s, there_s = here.usual_s(call), there.usual_s(call)
    costs = f"{format_time(here_s)} in {here.name} and {format_time(there_s)} in {there.name}"
    more_s = (MOST_TIMES_A_CHEAP_CALL if call == CHEAP else 1) * (here_s - there_s)
    at_most = 1 + more_s * calls / case_s if calls and case_s else math.inf
    what, title = ("system calls take", "system calls, which take") if call == CHEAP else (
        f"the system call {call} takes", f"the system call {call}, which takes"
    )  # fmt: skip
    yield Suspect(f"{what} {costs}: {seen}", 1.0, at_most, f"{title} {costs}: {seen}", upstream=_UPSTREAM)
