"""Threads: how many CPUs there are for them, how many a library starts or may start, and which are scheduled apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_THREADS, SLOWED
from primbench.causes._job_cpus import left_on_few, too_many_threads
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.threads import COME_LAST
from primbench.spec.placement import THREAD_VARIABLES
from primbench.system.files import format_cpu_list, parse_cpu_list
from primbench.system.meaning import FactId

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


ENOUGH_CPUS = 4  # that a single thread leaves most of them idle
CPUS_A_GPU = 4  # one launches, others load data, or the GPU waits (Lightning-AI/pytorch-lightning#18650)
# What a few processes start, each with a pool of as many threads as there are CPUs, and some more for a framework.
ENOUGH_THREADS, THREADS_A_CPU = 128, 8


def few_cpus(place: Place) -> Iterator[Finding]:
    """Whether there are CPUs for what loads data beside what launches: four for each GPU, more than one of several.

    Of a quota another check tells.
    """
    cpus, gpus = len(place.limits.cpus_allowed), len(place.gpus)
    there = place.machine.cpus_total or cpus
    if cpus >= CPUS_A_GPU * gpus and (gpus or cpus > 1 or there == 1):
        return
    wanted = max(2, CPUS_A_GPU * gpus)
    yield Finding(
        summary=f"{cpus} CPU{'s' * (cpus > 1)}" + (f" for {gpus} GPU{'s' * (gpus > 1)}" if gpus else "") + ": what "
        "loads data, starts and launches takes turns there",
        about=[FactId("limits", "cpus_allowed"), FactId("devices", "gpus")],
        values=[cpus, gpus],
        evidence=[f"sched_getaffinity(): CPUs {_allowed(place)}", f"CPUs of the machine: {there}"],
        advice=place.advice(
            f"give the job {wanted} CPUs or more: Slurm's --cpus-per-task for the step, too (srun), taskset",
            engine=f"--cpuset-cpus of {wanted} CPUs or more",
            kubernetes=f"ask for {wanted} CPUs in the pod's requests and limits",
        ),
    )


def threads(place: Place) -> Iterator[Finding]:
    """Whether libraries start more threads than there are CPUs for, or a single one of many."""
    granted, allowed = _granted(place), place.limits.cpus_allowed
    least = _least(place, granted)
    wrong = {name: count for name, count in _asked(place).items() if not least <= count <= granted}
    yield from (_other_threads(name, count, granted, _allowed(place)) for name, count in wrong.items())
    pools = {name: count for name, count in (place.software.threads or {}).items() if count > len(allowed)}
    if pools and not wrong:
        yield _too_large(pools, _allowed(place))


def _asked(place: Place) -> dict[str, int]:
    variables = place.variables
    asked = {name: _number(variables.get(name, "")) for name in THREAD_VARIABLES}
    return {name: count for name, count in asked.items() if count is not None}


def _least(place: Place, granted: float) -> float:
    """A thread for each whole CPU that is granted, or for each core, whose two threads compute little more than one.

    Where cores are not known one thread is few for several CPUs.
    """
    cores = place.limits.cores_allowed
    if cores is None:
        return 2 if granted >= ENOUGH_CPUS else 1
    return min(cores, max(1, int(granted)))


def _granted(place: Place) -> float:
    return min(len(place.limits.cpus_allowed), place.limits.cpu_quota or len(place.limits.cpus_allowed))


def _allowed(place: Place) -> str:
    return format_cpu_list(place.limits.cpus_allowed)


def _number(variable: str) -> int | None:
    text = variable.partition(",")[0].strip()
    return int(text[:9]) if text.isascii() and text.isdigit() else None


def _other_threads(name: str, asked: int, granted: float, cpus: str) -> Finding:
    of = f"{asked} threads of" if asked > 1 else "one thread of"
    what = "more threads than" if asked > granted else of
    return Finding(
        summary=f"{name}={asked} asks for {what} the {granted:g} CPUs granted here",
        about=[FactId("software", "variables", name), FactId("limits", "cpus_allowed"), FactId("limits", "cpu_quota")],
        values=[asked, granted],
        evidence=[f"environment variable {name}", f"CPUs allowed: {cpus}"],
        distorts=["data loading", "everything on the CPU"],
        advice=f"set it to {max(1, int(granted))} or leave it unset",
        fix=[f"export {name}={max(1, int(granted))}"],
    )


def _too_large(pools: dict[str, int], cpus: str) -> Finding:
    """Of what a worker had loaded: who counts the machine's CPUs knows of no cpuset. Of a quota another check tells."""
    return Finding(
        summary=f"more threads than CPUs to run on: those of {listed(list(pools))}",
        about=[FactId("software", "threads"), FactId("limits", "cpus_allowed")],
        values=[*pools],
        evidence=[f"threadpoolctl: {name} has {count} threads" for name, count in pools.items()]
        + [f"CPUs allowed: {cpus}"],
        distorts=["everything on the CPU"],
        advice="set OMP_NUM_THREADS and its like to the number of CPUs: not all libraries look at cpusets",
    )


def processes(place: Place) -> Iterator[Finding]:
    """Whether as many threads and processes may be started as libraries and data loaders want."""
    limits, cpus = place.limits, len(place.limits.cpus_allowed)
    refused, few = limits.processes_refused or 0, _little_room(place)
    if not (few or refused):
        return
    left = [f"{count} more may be started by {what}" for what, count in few.items()]
    said = f"{refused} times a thread or a process was refused" if refused else listed(left)
    yield Finding(
        severity="problem" if few and (refused or min(few.values()) < cpus) else "warning",
        summary=f"{said}: threads of libraries and workers of data loaders fail to start",
        values=[*few, *few.values()] * (not refused),
        reading=refused or None,
        evidence=[
            *left,
            f"pids.max: {_or_none(limits.processes_max)}, pids.events max: {refused}, CPUs allowed: {_allowed(place)}",
        ],
        distorts=["start-up", "data loading", "everything on the CPU"],
        advice=place.advice(
            "raise the limit before the start (ulimit -u, TasksMax=), or let fewer threads run (OMP_NUM_THREADS)",
            engine="--pids-limit 4096 --ulimit nproc=65536",
            kubernetes="let the node's kubelet have a larger podPidsLimit",
        ),
    )


def _little_room(place: Place) -> dict[str, int]:
    """What lets fewer processes start than may be wanted -> how many."""
    wanted = max(ENOUGH_THREADS, THREADS_A_CPU * len(place.limits.cpus_allowed))
    room = {"the control groups' pids.max": place.limits.processes_free, "RLIMIT_NPROC of the user": _own_limit(place)}
    return {what: count for what, count in room.items() if count is not None and count < wanted}


def _or_none(limit: int | None) -> str:
    return "no limit" if limit is None else str(limit)


def _own_limit(place: Place) -> int | None:
    """Root of the machine is not held to it: kernel/fork.c."""
    exempt = place.confinement.root_user and place.is_rootless is False
    return None if exempt else place.limits.processes_own_max


CAUSES = (
    Cause("thread-order", title="another priority of single threads", slows=_SLOWED, works=_WORKS, under="priority",
          explains_away=("thread-order",), severity="warning",
          effect="where others want the same CPUs, single threads wait, and the rest for them",
          reads=of("limits", "thread_niceness", "thread_scheduling"), here=thread_order),
    Cause("thread-cpus", title="other CPUs of single threads", slows=_SLOWED, works=_WORKS, upstream=6.5, stops=True,
          explains_away=("thread-cpus", "threads", "cpu-contention", "launches"), severity="warning",
          effect="single threads take turns on few CPUs, and the rest waits for them",
          reads=of("limits", "thread_cpus"), here=thread_cpus, in_job=left_on_few),
    Cause("few-cpus", slows=("data loading", "start-up", "everything on the CPU"), here=few_cpus),
    Cause("threads", title="other threads", counts="threads", power=1.5,
          slows=("everything on the CPU", "copy", "collective"), works=OF_THREADS, upstream=9, stops=True,
          explains_away=("threads", "launches"), severity="warning",
          effect="what is computed and copied on the CPU takes turns where there are fewer", here=threads,
          in_job=too_many_threads),
    Cause("waiting", title="threads that wait otherwise", slows=("everything on the CPU", "copy", "collective"),
          works=OF_THREADS, upstream=10, severity="warning",
          effect="threads wait for work by turning round or by sleeping, and wake in another time"),
    Cause("pinning", title="threads pinned otherwise",
          slows=("everything on the CPU", "copy", "collective", "data loading"),
          works={"": (*OF_THREADS[""], "data loading"), "numpy": OF_THREADS["numpy"]}, upstream=5, stops=True,
          severity="warning", effect="threads and what they start stay on other CPUs, or on the same ones"),
    Cause("processes", slows=SLOWED, upstream=8, refuses=r"Resource temporarily unavailable|can't start new thread",
          effect="threads and workers of data loaders do not start, and what they do waits for others",
          reads=of("limits", "processes_max"), here=processes),
    Cause("stacks", title="other stacks of threads", slows=("start-up",), times=3.0,
          source="timed: a thread with 4 GiB takes 1.3 times as long to start", upstream=8,
          effect="each thread has room for its stack, which is mapped anew where it is large"),
)  # fmt: skip
