"""Whether something stops the threads of a place that it did not have when its workers told of themselves.

They neither run nor wait for a CPU, though they have work to do, or a quota holds them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.criteria import problem_of
from primbench.compare.evidence import NOTABLE_THROTTLING, HeldBack, host_readings
from primbench.doctor.cause import Suspect
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import CaseComparison
    from primbench.compare.evidence import Seen
    from primbench.compare.sides import Side
    from primbench.measurement import Measurement
    from primbench.results.record import Record

NOTABLE = 0.1
ROOM = 2.0  # factor left for the scatter of shares, and for caches that others filled meanwhile
_BEFORE_OTHER_CPUS = 5.9
_NEVER_SLEEPS = {"getppid"}
_BUSY = ("kernel", "launch", "copy")  # work in which a thread sleeps for nothing, unless it asks the system for it


def stopped_threads(beside: Beside) -> Iterator[Suspect]:
    """In this case, or else in another one of the arm."""
    if beside.has_moved:
        yield from [*stopped(beside.case, beside.seen)] or beside.stops[:1]


def stopped(case: CaseComparison, seen: Seen) -> Iterator[Suspect]:
    """Of a case that keeps its thread at work: by how much more of the time it did not run in one place."""
    shares = seen.medians(_asleep) if is_busy(case) else None
    if shares is None or abs(shares[1] - shares[0]) <= NOTABLE:
        return
    is_arm = shares[1] > shares[0]
    name, other = (seen.other, seen.one) if is_arm else (seen.one, seen.other)
    less, more = sorted(shares)
    found = Suspect(
        f"in {name} its threads neither ran nor waited for a CPU for {format_percent(more)} of the time, "
        f"{format_percent(less)} in {other}: something stops them, as SIGSTOP, a frozen control group or a "
        "hypervisor",
        at_least=1.0,
        at_most=ROOM * (1 - less) / max(1 - more, 1e-3),
        title=f"something that stops its threads in {name}",
        stops=True,
    )
    yield found if is_arm else found.of_baseline()


def limited_later(beside: Beside) -> Iterator[Suspect]:
    """A quota or another control group that came over the processes of one place alone after they had told of it."""
    found = [*beside.each_way(lambda here, _: _later(here, beside.records(here)))]
    yield from found if len(found) == 1 else []


def _later(side: Side, records: Sequence[Record]) -> Iterator[Suspect]:
    found = Suspect("", at_least=1.0, upstream=_BEFORE_OTHER_CPUS, stops=True)
    if _were_moved(records):
        yield found._replace(
            words=f"processes of {side.name} were moved to another control group while they were timed"
        )
        return
    limits = [worker.environment.limits for worker in side.used]
    held_back = HeldBack.of(records)
    had_none = limits and all(each.cpu_quota is None and "cpu_quota" not in each.missing for each in limits)
    if had_none and held_back.share > NOTABLE_THROTTLING:
        title = f"a CPU quota that {side.name} was given after its start"
        yield found._replace(words=f"{title}: it held it back {held_back.words}", title=title)


def _were_moved(records: Sequence[Record]) -> bool:
    """To another control group, of which the limits do not tell more."""
    is_moved = any(host.was_moved for host in host_readings(records))
    return is_moved and not any(record.later for record in records)


def is_busy(case: CaseComparison) -> bool:
    """Whether it keeps its thread at work, which never sleeps unless something stops it."""
    if case.case.on.is_gpu or case.case.ranks > 1 or (problem := case.case.known_problem()) is None:
        return False
    return problem_of(case.case.primitive).work in _BUSY and _NEVER_SLEEPS.issuperset(problem.system_calls())


def _asleep(measurement: Measurement) -> float | None:
    """The share of its time in which this process did not run, for all threads together, nor could have.

    A quota, which stops threads, too, is known by its own counter. None where several threads run at once: what one of
    them slept is hidden by the time of the others, so that such a place would always look the livelier one.
    """
    host = measurement.host
    if host is None or host.waited_s is None or not host.duration_s:
        return None
    known = (host.cpu_time_s + host.waited_s + (host.throttled_s or 0.0)) / host.duration_s
    return max(0.0, 1 - known) if known <= 1 + NOTABLE else None
