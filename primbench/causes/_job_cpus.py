"""What the numbers of a stretch say of CPUs: quotas, others that want the same ones, own threads, stops, the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench.causes import _job_studies as studies
from primbench.doctor.cause import Hindrance
from primbench.doctor.job import ThreadUse, Unlisted
from primbench.environment.threads import COME_LAST
from primbench.system.files import format_cpu_list
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from primbench.doctor.job import Job, Stretch

BUSY = 0.5  # of a CPU
MANY_FAULTS_PER_S = 1e5  # of 0.3 us and more each, as of the kernel's fresh pages


def is_stopped(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """By a signal, or its debugger at a breakpoint."""
    if whole.stopped and whole.tracer in (None, "none"):
        yield _stopped(whole, "it goes on by `kill -CONT` or its debugger", "")


def is_traced(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Stopped time and again by who traces it."""
    if whole.stopped and whole.tracer not in (None, "none"):
        yield _stopped(whole, f"process {whole.tracer} traces it", ", as with strace at each system call")


def _stopped(whole: Stretch, goes_on: str, such_as: str) -> Hindrance:
    process, looks = max(whole.stopped.items(), key=lambda each: each[1])
    share = looks / whole.looks
    return Hindrance(
        share=share,
        summary=f"process {process} stopped for {format_percent(share)} of the time: {goes_on}",
        evidence=[f"/proc/{process}/stat: its state was T in {looks} of {whole.looks} looks"],
        distorts=["launch", "copy", "everything on the CPU", "data loading"],
        effect=f"nothing of it runs meanwhile{such_as}",
    )


def kernel_time(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """What the job has the kernel do, where that is most of what its busiest thread does."""
    share = (whole.busiest.ran_s if whole.busiest else 0.0) / whole.duration_s * _kernel_fraction(whole)
    if share >= BUSY / 2 and _kernel_fraction(whole) >= BUSY:
        minor, major = whole.minor_faults / whole.duration_s, whole.major_faults / whole.duration_s
        yield Hindrance(
            share=share,
            summary=f"{format_percent(_kernel_fraction(whole))} of its CPU time is the kernel's: system calls, faults",
            evidence=[
                "/proc/PID/stat utime, stime",
                f"page faults: {minor:,.0f} minor and {major:,.0f} major a second"
                + (", as of memory that is taken and given back over and over" if minor >= MANY_FAULTS_PER_S else ""),
            ],
            effect=f"what it computes itself takes {studies.times(share)}; filters and sandboxes make each call dearer",
        )


def _kernel_fraction(whole: Stretch) -> float:
    """Of the CPU time; 0 where that is not known."""
    return (whole.kernel_time_s or 0.0) / whole.cpu_time_s if whole.cpu_time_s else 0.0


def held_back_by_quota(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU waits for the quota first."""
    if not (whole.throttled_periods and whole.periods):
        return
    share = _throttled_s(whole) / whole.duration_s
    of_periods = whole.throttled_periods / whole.periods
    quota = job.limits.cpu_quota
    yield Hindrance(
        share=share,
        summary=f"held back by the CPU quota in {format_percent(of_periods)} of periods",
        evidence=[
            f"cpu.stat of its control groups: {whole.throttled_periods} of {whole.periods} periods, "
            f"{format_time(whole.throttled_s)} in all, summed over CPUs",
            *([f"quota: {quota:g} CPUs" if quota is not None else "quota: of a group that is not seen here"]),
            f"it used {_cpus_used(whole)}",
        ],
        distorts=["launch", "copy", "everything on the CPU", "data loading"],
        effect=f"its threads stop for the rest of a period: {studies.times(share)}, in pauses of up to "
        f"{format_time(job.limits.cpu_period_s or 0.1)}; kernels wait for their launches",
        study=studies.of_quota(job),
    )


def _throttled_s(whole: Stretch) -> float:
    """Of the thread that waited longest: the kernel sums it over CPUs."""
    return min(whole.throttled_s or 0.0, max((each.waited_s for each in whole.threads), default=whole.duration_s))


def _cpus_used(whole: Stretch) -> str:
    return f"{whole.cpu_time_s / whole.duration_s:.2f} CPUs' worth of time"


class _Wait(NamedTuple):
    """What held up the thread that waited longest, but for what the quota took."""

    thread: ThreadUse
    share: float
    cpus: set[int]
    """CPUs of all threads that wait much."""
    there: list[ThreadUse | Unlisted]
    """Threads that may run on these CPUs."""
    wanted: float
    """How many CPUs these threads wanted together."""

    @property
    def is_for_own(self) -> bool:
        """Its own threads hold one another up where together they want more than the CPUs of those that wait much: of
        many that also wait for a lock, as of Python's, none may want a CPU for long.
        """
        return bool(self.cpus) and self.wanted >= len(self.cpus) + BUSY


def _waiting(whole: Stretch, job: Job) -> _Wait | None:
    """After the quota it is other threads of the job, and others' last."""
    if not whole.threads:
        return None
    waiting = max(whole.threads, key=lambda each: each.waited_s)
    share = max(0.0, waiting.waited_s - _throttled_s(whole)) / whole.duration_s
    cpus = _cpus([each for each in whole.threads if each.waited_s >= waiting.waited_s / 2], job)
    there = [each for each in whole.wanting if cpus & _cpus([each], job)]
    return _Wait(waiting, share, cpus, there, sum(each.wanted_s for each in there) / whole.duration_s)


def _cpus(threads: Iterable[ThreadUse | Unlisted], job: Job) -> set[int]:
    """On which these may run."""
    return {cpu for each in threads for cpu in each.cpus or job.limits.cpus_allowed}


def too_many_threads(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU waits for other threads of the job."""
    found = _waiting(whole, job)
    if found is None or not found.is_for_own:
        return
    cpus = sorted(found.cpus)
    plural = "s" * (len(cpus) > 1)
    listed = [each for each in found.there if isinstance(each, ThreadUse)]
    count = len(listed) + sum(each.threads for each in found.there if isinstance(each, Unlisted))
    yield Hindrance(
        share=found.share,
        summary=f"{count} threads of its own want {found.wanted:.1f} CPUs and have {len(cpus)}",
        evidence=[
            *(_waits(whole, each) for each in listed[:3]),
            f"CPU{plural} of these threads: {format_cpu_list(cpus)}",
        ],
        distorts=["launch", "copy", "everything on the CPU", "data loading"],
        effect=f"they take turns, and who waits for all of them waits for the last: {studies.times(found.share)}",
        study=studies.of_threads(cpus, count),
    )


def _waits(whole: Stretch, thread: ThreadUse) -> str:
    ran, waited = (format_percent(each / whole.duration_s) for each in (thread.ran_s, thread.waited_s))
    return f"schedstat of thread {thread.number} ({thread.name or 'unnamed'}): ran {ran}, waited {waited} of the time"


def left_on_few(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU may run on few of the job's alone, where others of these are free and would do."""
    found, allowed = _waiting(whole, job), set(job.limits.cpus_allowed)
    if found is None or not found.cpus or not found.cpus < allowed:
        return
    elsewhere = sum(each.wanted_s for each in whole.wanting if each not in found.there) / whole.duration_s
    is_free = elsewhere + BUSY <= len(allowed - found.cpus)
    if is_free and found.wanted < len(allowed) + BUSY:
        yield _left_on_few(whole, job, found)


def _left_on_few(whole: Stretch, job: Job, found: _Wait) -> Hindrance:
    bound = [each for each in found.there if _cpus([each], job) <= found.cpus]
    count = sum(each.threads if isinstance(each, Unlisted) else 1 for each in bound)
    wanted = sum(each.wanted_s for each in bound) / whole.duration_s
    return Hindrance(
        share=found.share,
        summary=f"{count} thread{'s' * (count > 1)} that want{'s' * (count == 1)} {wanted:.1f} CPUs may run on "
        f"CPU{'s' * (len(found.cpus) > 1)} {format_cpu_list(found.cpus)} alone, of its "
        f"{format_cpu_list(job.limits.cpus_allowed)}",
        evidence=[
            *(_waits(whole, each) for each in bound[:3] if isinstance(each, ThreadUse)),
            "sched_getaffinity() of each thread",
        ],
        effect="the job's other CPUs are of no use to them, and who waits for all waits for these: "
        f"{studies.times(found.share)}",
        study=studies.of_threads(sorted(found.cpus), count),
    )


def others_first(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU waits for others that come first."""
    found = _waiting(whole, job)
    last = _comes_last(found.thread, job) if found is not None and not found.is_for_own else ""
    if found is not None and last:
        yield _contention(whole, job, found, f", as others that want the same CPUs go first: its {last}")


def _comes_last(thread: ThreadUse, job: Job) -> str:
    """What of a thread says so, or of its process where it has ended meanwhile; "" where nothing does."""
    niceness = job.limits.niceness if thread.niceness is None else thread.niceness
    policy = thread.scheduling or job.limits.scheduling
    return f"policy is {policy}" if policy in COME_LAST else f"niceness is {niceness}" if (niceness or 0) > 0 else ""


def others_on_cpus(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU waits for others, that are not of the job."""
    found = _waiting(whole, job)
    if found is not None and not found.is_for_own:
        yield _contention(whole, job, found)


def _contention(whole: Stretch, job: Job, found: _Wait, why: str = "") -> Hindrance:
    waiting, share = found.thread, found.share
    who = "its busiest thread" if waiting == whole.busiest else f"a thread ({waiting.name or waiting.number})"
    evidence = [_waits(whole, waiting)]
    if whole.cpu_waiting_s is not None:
        evidence.append(f"cpu.pressure: some task waited in {format_percent(whole.cpu_waiting_s / whole.duration_s)}")
    evidence += [
        f"{each.name} used {format_percent(each.cpu_time_s / whole.duration_s)} of a CPU" for each in whole.neighbours
    ]
    if whole.migrations:
        evidence.append(f"{whole.migrations} migrations of its threads to other CPUs")
    return Hindrance(
        share=share,
        summary=f"{who} waited for a CPU {format_percent(waiting.waited_s / whole.duration_s)} of the time{why}",
        evidence=[*evidence, f"CPUs allowed: {format_cpu_list(job.limits.cpus_allowed)}"],
        distorts=["launch", "copy", "everything on the CPU", "data loading"],
        effect=f"others have its CPUs meanwhile: {studies.times(share)}, the shortest launches most",
        study=studies.of_neighbours(job),
    )
