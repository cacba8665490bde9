"""What the numbers of a stretch say of memory and disks: what is read again, read, written or waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import _job_studies as studies
from primbench.doctor.cause import Hindrance
from primbench.doctor.job import ANSWERED, SYNCING
from primbench.environment.disks import USUAL_BYTES
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.job import Job, Stretch

FEW_BYTES_PER_S, FEW_FAULTS_PER_S = 2**20, 20.0
_STARTING = "where it starts processes", "until each of them runs a program"
_GIVING_BACK = "until its control group holds less memory", "as it is above memory.high"
_BLOCKED_BY = {  # function of the kernel -> what waits there, and for what
    **dict.fromkeys(("kernel_clone", "_do_fork", "do_fork"), _STARTING),  # Linux: kernel/fork.c
    # Linux: mm/memcontrol.c
    **dict.fromkeys(("mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"), _GIVING_BACK),
    ANSWERED: ("until a process answers for a file system (FUSE)", "as fuse-overlayfs, sshfs or virtiofs"),
}
EXPLAINED = 0.5  # of what is read from disks, which a memory limit had taken out of the cache


def short_of_memory(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """What is read again for want of memory is told as that, and not as reading."""
    summary = _taken_out(whole, job)
    if not summary:
        return
    share = max(whole.blocked_fraction, (whole.memory_waiting_s or 0.0) / whole.duration_s)
    limit = job.limits.memory_limit_bytes
    yield Hindrance(
        share=share,
        summary=summary,
        evidence=[
            "workingset_refault_anon, workingset_refault_file: memory.stat of its control groups, or /proc/vmstat",
            f"limit {format_bytes(limit)}, resident {format_bytes(whole.memory_bytes)}, swapped out "
            f"{format_bytes(whole.swapped_bytes)}",
            *_blocked_in(whole),
            *_pressure("memory", whole.memory_waiting_s, whole),
        ],
        distorts=["data loading", "start-up", "copy", "everything on the CPU"],
        effect=f"who touches what was taken out waits for the disk: {studies.times(share)}",
        study=studies.of_memory(job),
    )


def reads_little_ahead(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Of a disk with files that it has open, while it reads from disks."""
    little = {disk: ahead for disk, ahead in (job.read_ahead_bytes or {}).items() if ahead < USUAL_BYTES}
    read = _a_second(whole.read_bytes, whole)
    if (
        little
        and read >= FEW_BYTES_PER_S
        and read >= _a_second(whole.written_bytes, whole)
        and not _taken_out(whole, job)
    ):
        disk, ahead_bytes = min(little.items(), key=lambda each: each[1])
        yield Hindrance(
            share=whole.blocked_fraction,
            summary=f"reads from disk: {_rate(read)}, by {format_bytes(ahead_bytes)} at a time, as {disk} is read no "
            "further ahead",
            evidence=[f"read_ahead_kb of {disk}, on which it has files open", *_counted(whole)],
            effect="what it maps, or reads by small pieces, waits for the disk with each piece: "
            f"{studies.times(whole.blocked_fraction)}",
        )


def waits_for_disk(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    if _taken_out(whole, job) or not _is_of_disk(whole):
        return
    writes = (whole.written_bytes or 0) > (whole.read_bytes or 0)
    does = "writes" if writes else "reads"
    yield Hindrance(
        share=whole.blocked_fraction,
        summary=_what_moves(whole, f"{does} {'to' if writes else 'from'} disk"),
        evidence=[
            *_counted(whole),
            *(f"in {function} in {looks}" for function, looks in whole.blocked_in.items() if function in SYNCING),
            *_pressure("io", whole.io_waiting_s, whole),
        ],
        distorts=["data loading", "start-up"],
        effect=f"who {does} waits for the disk: {studies.times(whole.blocked_fraction)}; GPUs wait for batches",
        study=studies.of_disk(job),
    )


def _what_moves(whole: Stretch, what: str) -> str:
    moved, faults = _moved(whole), whole.major_faults / whole.duration_s
    if moved >= FEW_BYTES_PER_S:
        waits = ", and waits until the disk has it, by fsync or alike" * (_most_blocked_in(whole) in SYNCING)
        return f"{what}: {_rate(moved)}{waits}"
    if faults >= FEW_FAULTS_PER_S:
        return f"{what}: major faults {faults:,.0f} a second"
    return "waits until a disk has what it wrote, by fsync or alike, though that is little"


def is_blocked(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """In the kernel, by something else."""
    if _taken_out(whole, job) or _is_of_disk(whole):
        return
    summary, by = _BLOCKED_BY.get(
        _most_blocked_in(whole) or "",
        ("though little was read from disks or written to them", "as by a file system over a network, or by a driver"),
    )
    yield Hindrance(
        share=whole.blocked_fraction,
        summary=f"a thread was blocked in the kernel, {summary}",
        evidence=[
            *_blocked_in(whole),
            *(f"in {function} in {looks}" for function, looks in whole.blocked_in.items()),
            by,
        ],
        distorts=["data loading", "start-up"],
        effect=f"what that thread does takes {studies.times(whole.blocked_fraction)}",
    )


def _moved(whole: Stretch) -> float:
    """Bytes a second from and to disks."""
    return _a_second(whole.read_bytes, whole) + _a_second(whole.written_bytes, whole)


def _is_of_disk(whole: Stretch) -> bool:
    faults = whole.major_faults / whole.duration_s
    return _moved(whole) >= FEW_BYTES_PER_S or faults >= FEW_FAULTS_PER_S or _most_blocked_in(whole) in SYNCING


def _a_second(count: int | None, whole: Stretch) -> float:
    return (count or 0) / whole.duration_s


def _taken_out(whole: Stretch, job: Job) -> str:
    """What was read again after it had to give way; "" where that is little."""
    reread, swapped_in = _a_second(whole.reread_bytes, whole), _a_second(whole.swapped_in_bytes, whole)
    if swapped_in >= FEW_BYTES_PER_S:
        return f"swapping in: {_rate(swapped_in)}"
    if reread >= FEW_BYTES_PER_S and reread >= EXPLAINED * _moved(whole):
        why = "its memory limit had" if job.limits.memory_limit_bytes is not None else "a lack of memory had"
        return f"reads again what {why} taken out of the cache: {_rate(reread)}"
    return ""


def _rate(bytes_per_s: float) -> str:
    return f"{format_bytes(round(bytes_per_s))} a second"


def _blocked_in(whole: Stretch) -> list[str]:
    if not whole.looks:
        return []
    return [f"a thread was blocked in {format_percent(whole.blocked_fraction)} of {whole.looks} looks"]


def _pressure(on: str, waiting_s: float | None, whole: Stretch) -> list[str]:
    if waiting_s is None:
        return []
    return [f"{on}.pressure: some task waited in {format_percent(waiting_s / whole.duration_s)} of the time"]


def _counted(whole: Stretch) -> list[str]:
    return [
        f"/proc/PID/io: read {format_bytes(whole.read_bytes)}, written {format_bytes(whole.written_bytes)}",
        f"major faults: {whole.major_faults / whole.duration_s:,.0f} a second",
        *_blocked_in(whole),
    ]


def _most_blocked_in(whole: Stretch) -> str | None:
    return max(whole.blocked_in, key=whole.blocked_in.__getitem__, default=None)
