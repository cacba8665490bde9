"""The causes that the numbers of a stretch speak for, the likeliest first: those that cost the most time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_percent, format_time
from primbench.watching import studies
from primbench.watching.gpu_causes import on_gpus
from primbench.watching.hindrance import Hindrance
from primbench.watching.looks import ANSWERED, SYNCING
from primbench.watching.threads import ThreadUse, Unlisted
from primbench.watching.waits import on_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.doctor.finding import Activity
    from primbench.watching.job import Job
    from primbench.watching.stretch import Stretch

LEAST_SHARE = 0.05  # of the time; a cause that costs less is not told
BUSY = 0.5  # of a CPU
FEW_BYTES_PER_S, FEW_FAULTS_PER_S = 2**20, 20.0
MANY_FAULTS_PER_S = 1e5  # of 0.3 us and more each, as of the kernel's fresh pages
_STARTING = "where it starts processes", "until each of them runs a program"
_GIVING_BACK = "until its control group holds less memory", "as it is above memory.high"
_BLOCKED_BY = {  # function of the kernel -> what waits there, and for what
    **dict.fromkeys(("kernel_clone", "_do_fork", "do_fork"), _STARTING),  # Linux: kernel/fork.c
    # Linux: mm/memcontrol.c
    **dict.fromkeys(("mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"), _GIVING_BACK),
    ANSWERED: ("until a process answers for a file system (FUSE)", "as fuse-overlayfs, sshfs or virtiofs"),
}
EXPLAINED = 0.5  # of what is read from disks, which a memory limit had taken out of the cache
_ON_CPU: list[Activity] = ["launch", "copy", "everything on the CPU", "data loading"]
_ON_FILES: list[Activity] = ["data loading", "start-up"]


def hindrances(whole: Stretch, job: Job) -> list[Hindrance]:
    """whole: all that was watched; [] where nothing in it held the job back. What it does itself comes last."""
    if not whole.duration_s:
        return []
    found = [
        each
        for each in (
            *_stopped(whole),
            *_on_cpus(whole, job),
            *_on_memory_or_disks(whole, job),
            *on_others(whole, job, is_stopped=bool(whole.stopped)),
        )
        if each.share >= LEAST_SHARE
    ]
    found += [each for each in on_gpus(whole, job, cpu_is_held_back=bool(found)) if each.share >= LEAST_SHARE]
    found.sort(key=lambda each: (each.cause != "traced", -each.share))  # that distorts all other numbers
    return [*found, *_in_kernel(whole)]


def _stopped(whole: Stretch) -> Iterator[Hindrance]:
    if whole.stopped:
        process, looks = max(whole.stopped.items(), key=lambda each: each[1])
        share = looks / whole.looks
        tracer = None if whole.tracer == "none" else whole.tracer
        goes_on = "it goes on by `kill -CONT` or its debugger" if tracer is None else f"process {tracer} traces it"
        yield Hindrance(
            cause="stopped" if tracer is None else "traced",
            share=share,
            summary=f"process {process} stopped for {format_percent(share)} of the time: {goes_on}",
            evidence=[f"/proc/{process}/stat: its state was T in {looks} of {whole.looks} looks"],
            distorts=_ON_CPU,
            effect="nothing of it runs meanwhile" + (", as with strace at each system call" if tracer else ""),
            study=None,
        )


def _in_kernel(whole: Stretch) -> Iterator[Hindrance]:
    """What the job has the kernel do, where that is most of what its busiest thread does."""
    share = (whole.busiest.ran_s if whole.busiest else 0.0) / whole.duration_s * _kernel_fraction(whole)
    if share >= BUSY / 2 and _kernel_fraction(whole) >= BUSY:
        minor, major = whole.minor_faults / whole.duration_s, whole.major_faults / whole.duration_s
        yield Hindrance(
            cause="kernel",
            share=share,
            summary=f"{format_percent(_kernel_fraction(whole))} of its CPU time is the kernel's: system calls, faults",
            evidence=[
                "/proc/PID/stat utime, stime",
                f"page faults: {minor:,.0f} minor and {major:,.0f} major a second"
                + (", as of memory that is taken and given back over and over" if minor >= MANY_FAULTS_PER_S else ""),
            ],
            distorts=["everything on the CPU", "data loading"],
            effect=f"what it computes itself takes {_times(share)}; filters and sandboxes make each call dearer",
            study=None,
        )


def _kernel_fraction(whole: Stretch) -> float:
    """Of the CPU time; 0 where that is not known."""
    return (whole.kernel_time_s or 0.0) / whole.cpu_time_s if whole.cpu_time_s else 0.0


def _on_cpus(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Who waits for a CPU waits for the quota first, for other threads of the job then, and for others' last."""
    longest_s = max((each.waited_s for each in whole.threads), default=whole.duration_s)
    throttled_s = min(whole.throttled_s or 0.0, longest_s)  # which the kernel sums over CPUs
    if whole.throttled_periods and whole.periods:
        yield _quota(whole, job, throttled_s)
    if whole.threads:
        yield _waiting(whole, job, throttled_s)


def _waiting(whole: Stretch, job: Job, throttled_s: float) -> Hindrance:
    """Of the thread that waited longest, but for what the quota took.

    Its own threads hold one another up where together they want more than the CPUs of those that wait much: of many
    that also wait for a lock, as of Python's, none may want a CPU for long.
    """
    waiting = max(whole.threads, key=lambda each: each.waited_s)
    share = max(0.0, waiting.waited_s - throttled_s) / whole.duration_s
    cpus = _cpus([each for each in whole.threads if each.waited_s >= waiting.waited_s / 2], job)
    there = [each for each in whole.wanting if cpus & _cpus([each], job)]
    wanted = sum(each.wanted_s for each in there) / whole.duration_s
    if cpus and wanted >= len(cpus) + BUSY:
        return _too_many_threads(whole, there, wanted, sorted(cpus), share)
    return _contention(whole, job, waiting, share)


def _cpus(threads: Iterable[ThreadUse | Unlisted], job: Job) -> set[int]:
    """On which these may run."""
    return {cpu for each in threads for cpu in each.cpus or job.limits.cpus_allowed}


def _quota(whole: Stretch, job: Job, throttled_s: float) -> Hindrance:
    periods = whole.periods or 1
    share = throttled_s / whole.duration_s
    of_periods = (whole.throttled_periods or 0) / periods
    quota = job.limits.cpu_quota
    return Hindrance(
        cause="cpu-quota",
        share=share,
        summary=f"held back by the CPU quota in {format_percent(of_periods)} of periods",
        evidence=[
            f"cpu.stat of its control groups: {whole.throttled_periods} of {periods} periods, "
            f"{format_time(whole.throttled_s)} in all, summed over CPUs",
            *([f"quota: {quota:g} CPUs" if quota is not None else "quota: of a group that is not seen here"]),
            f"it used {_cpus_used(whole)}",
        ],
        distorts=_ON_CPU,
        effect=f"its threads stop for the rest of a period: {_times(share)}, in pauses of up to "
        f"{format_time(job.limits.cpu_period_s or 0.1)}; kernels wait for their launches",
        study=studies.of_quota(job),
    )


def _cpus_used(whole: Stretch) -> str:
    return f"{whole.cpu_time_s / whole.duration_s:.2f} CPUs' worth of time"


def _times(share: float) -> str:
    return f"up to {1 / max(1 - share, 0.01):.1f} times as long"


def _too_many_threads(
    whole: Stretch, there: Sequence[ThreadUse | Unlisted], wanted: float, cpus: list[int], share: float
) -> Hindrance:
    plural = "s" * (len(cpus) > 1)
    listed = [each for each in there if isinstance(each, ThreadUse)]
    count = len(listed) + sum(each.threads for each in there if isinstance(each, Unlisted))
    return Hindrance(
        cause="threads",
        share=share,
        summary=f"{count} threads of its own want {wanted:.1f} CPUs and have {len(cpus)}",
        evidence=[
            *(_waits(whole, each) for each in listed[:3]),
            f"CPU{plural} of these threads: {format_cpu_list(cpus)}",
        ],
        distorts=_ON_CPU,
        effect=f"they take turns, and who waits for all of them waits for the last: {_times(share)}",
        study=studies.of_threads(cpus, count),
    )


def _waits(whole: Stretch, thread: ThreadUse) -> str:
    ran, waited = (format_percent(each / whole.duration_s) for each in (thread.ran_s, thread.waited_s))
    return f"schedstat of thread {thread.number} ({thread.name or 'unnamed'}): ran {ran}, waited {waited} of the time"


def _contention(whole: Stretch, job: Job, waiting: ThreadUse, share: float) -> Hindrance:
    who = "its busiest thread" if waiting == whole.busiest else f"a thread ({waiting.name or waiting.number})"
    evidence = [_waits(whole, waiting)]
    if whole.cpu_waiting_s is not None:
        evidence.append(f"cpu.pressure: some task waited in {format_percent(whole.cpu_waiting_s / whole.duration_s)}")
    if (job.limits.niceness or 0) > 0:
        evidence.append(f"its niceness is {job.limits.niceness}: those with a lower one come first")
    evidence += [
        f"{each.name} used {format_percent(each.cpu_time_s / whole.duration_s)} of a CPU" for each in whole.neighbours
    ]
    if whole.migrations:
        evidence.append(f"{whole.migrations} migrations of its threads to other CPUs")
    return Hindrance(
        cause="cpu-contention",
        share=share,
        summary=f"{who} waited for a CPU {format_percent(waiting.waited_s / whole.duration_s)} of the time",
        evidence=[*evidence, f"CPUs allowed: {format_cpu_list(job.limits.cpus_allowed)}"],
        distorts=_ON_CPU,
        effect=f"others have its CPUs meanwhile: {_times(share)}, the shortest launches most",
        study=studies.of_neighbours(job),
    )


def _on_memory_or_disks(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """What is read again for want of memory is told as that, and not as reading."""
    faults = whole.major_faults / whole.duration_s
    moved = _a_second(whole.read_bytes, whole) + _a_second(whole.written_bytes, whole)
    if words := _taken_out(whole, moved):
        yield _short_of_memory(whole, job, words)
    elif moved >= FEW_BYTES_PER_S or faults >= FEW_FAULTS_PER_S or _most_blocked_in(whole) in SYNCING:
        yield _disk(whole, job, moved, faults)
    else:
        yield _blocked(whole)


def _a_second(count: int | None, whole: Stretch) -> float:
    return (count or 0) / whole.duration_s


def _taken_out(whole: Stretch, moved: float) -> str:
    """What was read again after it had to give way; "" where that is little."""
    reread, swapped_in = _a_second(whole.reread_bytes, whole), _a_second(whole.swapped_in_bytes, whole)
    if swapped_in >= FEW_BYTES_PER_S:
        return f"swapping in: {_rate(swapped_in)}"
    if reread >= FEW_BYTES_PER_S and reread >= EXPLAINED * moved:
        return f"reads again what its memory limit had taken out of the cache: {_rate(reread)}"
    return ""


def _rate(bytes_per_s: float) -> str:
    return f"{format_bytes(round(bytes_per_s))} a second"


def _short_of_memory(whole: Stretch, job: Job, summary: str) -> Hindrance:
    share = max(whole.blocked_fraction, (whole.memory_waiting_s or 0.0) / whole.duration_s)
    limit = job.limits.memory_limit_bytes
    return Hindrance(
        cause="memory",
        share=share,
        summary=summary,
        evidence=[
            "memory.stat workingset_refault_anon, workingset_refault_file of its control groups",
            f"limit {format_bytes(limit)}, resident {format_bytes(whole.memory_bytes)}, swapped out "
            f"{format_bytes(whole.swapped_bytes)}",
            *_blocked_in(whole),
            *_pressure("memory", whole.memory_waiting_s, whole),
        ],
        distorts=[*_ON_FILES, "copy", "everything on the CPU"],
        effect=f"who touches what was taken out waits for the disk: {_times(share)}",
        study=studies.of_memory(job),
    )


def _blocked_in(whole: Stretch) -> list[str]:
    if not whole.looks:
        return []
    return [f"a thread was blocked in {format_percent(whole.blocked_fraction)} of {whole.looks} looks"]


def _pressure(on: str, waiting_s: float | None, whole: Stretch) -> list[str]:
    if waiting_s is None:
        return []
    return [f"{on}.pressure: some task waited in {format_percent(waiting_s / whole.duration_s)} of the time"]


def _disk(whole: Stretch, job: Job, moved: float, faults: float) -> Hindrance:
    writes = (whole.written_bytes or 0) > (whole.read_bytes or 0)
    what = "writes to disk" if writes else "reads from disk"
    if moved >= FEW_BYTES_PER_S:
        waits = ", and waits until the disk has it, by fsync or alike" * (_most_blocked_in(whole) in SYNCING)
        words = f"{what}: {_rate(moved)}{waits}"
    elif faults >= FEW_FAULTS_PER_S:
        words = f"{what}: major faults {faults:,.0f} a second"
    else:
        words = "waits until a disk has what it wrote, by fsync or alike, though that is little"
    return Hindrance(
        cause="disk",
        share=whole.blocked_fraction,
        summary=words,
        evidence=[
            f"/proc/PID/io: read {format_bytes(whole.read_bytes)}, written {format_bytes(whole.written_bytes)}",
            f"major faults: {faults:,.0f} a second",
            *_blocked_in(whole),
            *(f"in {function} in {looks}" for function, looks in whole.blocked_in.items() if function in SYNCING),
            *_pressure("io", whole.io_waiting_s, whole),
        ],
        distorts=_ON_FILES,
        effect=f"who {what.split()[0]} waits for the disk: {_times(whole.blocked_fraction)}; GPUs wait for batches",
        study=studies.of_disk(job),
    )


def _most_blocked_in(whole: Stretch) -> str | None:
    return max(whole.blocked_in, key=whole.blocked_in.__getitem__, default=None)


def _blocked(whole: Stretch) -> Hindrance:
    summary, by = _BLOCKED_BY.get(
        _most_blocked_in(whole) or "",
        ("though little was read from disks or written to them", "as by a file system over a network, or by a driver"),
    )
    return Hindrance(
        cause="blocked",
        share=whole.blocked_fraction,
        summary=f"a thread was blocked in the kernel, {summary}",
        evidence=[
            *_blocked_in(whole),
            *(f"in {function} in {looks}" for function, looks in whole.blocked_in.items()),
            by,
        ],
        distorts=_ON_FILES,
        effect=f"what that thread does takes {_times(whole.blocked_fraction)}",
        study=None,
    )
