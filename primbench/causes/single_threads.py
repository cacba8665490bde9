"""Threads of a process that are scheduled apart from its first one, and workers that it forked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_THREADS
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.threads import COME_LAST
from primbench.system.files import format_cpu_list, parse_cpu_list
from primbench.watching.on_cpus import left_on_few

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.doctor.place import Place
    from primbench.problem import Work
    from primbench.spec.setting import Activity

RANK = 4


def thread_order(place: Place) -> Iterator[Finding]:
    """Whether single threads come after others that want the same CPUs."""
    own = place.limits.niceness or 0
    nicer = {key: count for key, count in (place.limits.thread_niceness or {}).items() if int(key) > own}
    last = {key: count for key, count in (place.limits.thread_scheduling or {}).items() if key in COME_LAST}
    if nicer or last:
        yield Finding(
            summary="others that want the same CPUs go before single threads of it: "
            + listed([*_each("niceness", nicer), *_each("the policy", last)]),
            values=[*nicer, *last],
            evidence=[
                f"getpriority(), sched_getscheduler() of each of {place.proc}/task; its first has niceness {own}"
            ],
            advice="see what renices threads of libraries or workers of loaders; who waits for all waits for these",
        )


def _each(what: str, found: dict[str, int]) -> list[str]:
    return [f"{_threads(count)} with {what} {key}" for key, count in found.items()]


def thread_cpus(place: Place) -> Iterator[Finding]:
    """Whether single threads are left on fewer CPUs than there are such threads, or than the others have."""
    allowed = set(place.limits.cpus_allowed)
    for key, count in (place.limits.thread_cpus or {}).items():
        cpus = set(parse_cpu_list(key))
        if count > len(cpus) or cpus < allowed:
            yield Finding(
                severity="warning" if count > len(cpus) else "note",
                summary=f"{_threads(count)} of it may run on {_cpus(cpus)} alone, its first one on {_cpus(allowed)}",
                values=[key],
                evidence=[f"sched_getaffinity() of each of {place.proc}/task"],
                advice="see what binds them: OMP_PLACES, KMP_AFFINITY, taskset, a start of workers from a bound thread",
            )


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def _cpus(cpus: set[int]) -> str:
    return f"CPU{'s' * (len(cpus) > 1)} {format_cpu_list(cpus)}"


_SLOWED: tuple[Activity, ...] = ("everything on the CPU", "copy", "collective", "data loading")
_WORKS: Mapping[str, tuple[Work, ...]] = {"": (*OF_THREADS[""], "data loading"), "numpy": OF_THREADS["numpy"]}
"""What is done by more threads than the first one, or by workers."""

CAUSES = (
    Cause("thread-order", title="another priority of single threads", slows=_SLOWED, works=_WORKS, under="priority",
          explains_away=("thread-order",), severity="warning",
          effect="where others want the same CPUs, single threads wait, and the rest for them",
          reads=of("limits", "thread_niceness", "thread_scheduling"), here=thread_order),
    Cause("thread-cpus", title="other CPUs of single threads", slows=_SLOWED, works=_WORKS, upstream=6.5, stops=True,
          explains_away=("thread-cpus", "threads", "cpu-contention", "launches"), severity="warning",
          effect="single threads take turns on few CPUs, and the rest waits for them",
          reads=of("limits", "thread_cpus"), here=thread_cpus, in_job=left_on_few),
)  # fmt: skip
