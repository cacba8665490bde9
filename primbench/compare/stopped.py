"""Whether something stops the threads of a place: they neither run nor wait for a CPU, though they have work to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.cause import Cause
from primbench.compare.criteria import problem_of
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.evidence import Seen
    from primbench.measurement import Measurement

NOTABLE = 0.1
ROOM = 2.0  # factor left for the scatter of shares, and for caches that others filled meanwhile
_UPSTREAM = 5
_BUSY = ("kernel", "launch", "copy")  # work in which a thread sleeps for nothing, unless it asks the system for it


def stopped(case: CaseComparison, seen: Seen) -> Iterator[Cause]:
    """Of a case that keeps its thread at work: by how much more of the time it did not run in one place."""
    shares = seen.medians(_asleep) if _is_busy(case) else None
    if shares is None or abs(shares[1] - shares[0]) <= NOTABLE:
        return
    is_arm = shares[1] > shares[0]
    name, other = (seen.other, seen.one) if is_arm else (seen.one, seen.other)
    less, more = sorted(shares)
    found = Cause(
        f"in {name} its threads neither ran nor waited for a CPU for {format_percent(more)} of the time, "
        f"{format_percent(less)} in {other}: something stops them, as SIGSTOP, a frozen control group or a "
        "hypervisor",
        at_least=1.0,
        at_most=ROOM * (1 - less) / max(1 - more, 1e-3),
        title=f"something that stops its threads in {name}",
        upstream=_UPSTREAM,
        stops=True,
    )
    yield found if is_arm else found.of_baseline()


def _is_busy(case: CaseComparison) -> bool:
    problem = case.case.known_problem()
    if problem is None or problem.system_calls() or case.case.device != "cpu" or case.case.ranks > 1:
        return False
    return problem_of(case.case.primitive).work in _BUSY


def _asleep(measurement: Measurement) -> float | None:
    """The share of its time in which this process did not run, for all threads together, nor could have.

    A quota, which stops threads, too, is known by its own counter.
    """
    host = measurement.host
    if host is None or host.waited_s is None or not host.duration_s:
        return None
    known_s = host.cpu_time_s + host.waited_s + (host.throttled_s or 0.0)
    return max(0.0, 1 - known_s / host.duration_s)
