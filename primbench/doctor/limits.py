"""What a process is held to beside CPUs and memory: who goes first on a CPU, open files, reading and writing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.finding import Activity, Severity
    from primbench.doctor.place import Place

RANK = 4

# A data loader's tensors are a file each until they are taken: 1024, the usual soft limit, is too few for some workers
# (pytorch/pytorch#973, lightly-ai/lightly#487).
ENOUGH_FILES, FEW_FILES = 4096, 1024
MANY_OPEN = 10_000
NEARLY_ALL = 0.9  # of the files that may be open
MANY_FILES = 2**20  # who starts a process closes all that may be open: over a minute at 2^30 (moby/moby#45060)


def priority(place: Place) -> Iterator[Finding]:
    """Whether other programs that want the same CPUs go first."""
    limits = place.environment.limits
    yield from unseen("priority", limits, "cpu_weight", "niceness", "session_niceness", "scheduling")
    own, of_session = limits.niceness or 0, limits.session_niceness or 0
    last = [
        *([f"niceness {own}"] if own > 0 else []),
        *([f"niceness {of_session} of the session"] if of_session > 0 else []),
        *([f"the scheduling policy {limits.scheduling}"] if limits.scheduling in ("batch", "idle") else []),
        *([f"a control group of weight {limits.cpu_weight}, where 100 is usual"] if limits.cpu_weight else []),
    ]
    if last:
        yield Finding(
            check="priority",
            severity="warning",
            summary=f"others that want the same CPUs go first: {listed(last)}",
            evidence=["getpriority(), /proc/self/autogroup, sched_getscheduler(), cpu.weight, cpu.shares"],
            distorts=["launch", "copy", "collective", "everything on the CPU", "start-up", "data loading"],
            advice=place.advice(
                "start it without nice, chrt and CPUWeight=, or on CPUs that nobody else uses",
                engine="--cpu-shares 1024 or more, or --cpuset-cpus that nobody else has",
                kubernetes="requests as large as what it uses: the weight follows from them",
            ),
        )


def open_files(place: Place) -> Iterator[Finding]:
    """Whether enough files may be open at a time, and not so many that closing them all takes long."""
    limits = place.environment.limits
    yield from unseen("open-files", limits, "open_files")
    files = math.inf if limits.open_files is None else limits.open_files
    if "open_files" not in limits.missing and files > MANY_FILES:
        yield _open_files(
            place,
            severity="note",
            summary=f"{'any number of' if files == math.inf else files} files may be open: programs that close all of "
            "them before they start another take long for it",
            distorts=["start-up"],
        )
    elif files < ENOUGH_FILES:
        yield _open_files(
            place,
            severity="warning" if files < FEW_FILES else "note",
            summary=f"{files} files may be open at a time: data loaders of many workers and collectives of many ranks "
            "fail",
            distorts=["collective", "start-up", "data loading"],
        )


def _open_files(place: Place, *, severity: Severity, summary: str, distorts: list[Activity]) -> Finding:
    return Finding(
        check="open-files",
        severity=severity,
        summary=summary,
        evidence=["getrlimit(RLIMIT_NOFILE), the soft limit"],
        distorts=distorts,
        advice=place.advice(
            "set another soft limit before the start (LimitNOFILE=, ulimit -n)", engine="--ulimit nofile=65536"
        ),
        fix=["ulimit -n 65536"],
    )


def descriptors(place: Place) -> Iterator[Finding]:
    """Whether more files are open than each program that is started should be given, or about as many as may be."""
    limits = place.environment.limits
    yield from unseen("descriptors", limits, "descriptors")
    if limits.descriptors is not None and limits.descriptors >= NEARLY_ALL * (limits.open_files or math.inf):
        yield Finding(
            check="descriptors",
            severity="problem",
            summary=f"{limits.descriptors} of the {limits.open_files} files that may be open at a time are: what opens "
            "more fails",
            evidence=["/proc/self/fd", "getrlimit(RLIMIT_NOFILE), the soft limit"],
            distorts=["data loading", "collective"],
            advice="close what is not needed any more (lsof -p shows what is open), or raise the limit",
        )
    if limits.descriptors is not None and limits.descriptors > MANY_OPEN:
        yield Finding(
            check="descriptors",
            severity="warning",
            summary=f"{limits.descriptors} files are open: each program that is started is given a copy of the table",
            evidence=["/proc/self/fd"],
            distorts=["start-up", "data loading"],
            advice="let what starts it open its files with O_CLOEXEC, or close them",
        )


def cpu_time(place: Place) -> Iterator[Finding]:
    """Whether a process may compute for as long as it likes, and is not killed after some time."""
    limits = place.environment.limits
    yield from unseen("cpu-time", limits, "cpu_time_limit_s")
    if limits.cpu_time_limit_s is not None:
        yield Finding(
            check="cpu-time",
            severity="warning",
            summary=f"each process is killed once its threads together have computed for {limits.cpu_time_limit_s:g} s",
            evidence=["getrlimit(RLIMIT_CPU), the soft limit"],
            distorts=["launch", "copy", "collective", "everything on the CPU", "start-up", "data loading"],
            advice=place.advice(
                "take the limit away (limits.conf, LimitCPU=, ulimit -t), or ask the batch system for more time",
                engine="without --ulimit cpu=",
            ),
        )


def io_limits(place: Place) -> Iterator[Finding]:
    """Whether reading from disks and writing to them is held to so many bytes or operations a second."""
    limits = place.environment.limits
    yield from unseen("io-limits", limits, "io_limits")
    if limits.io_limits:
        yield Finding(
            check="io-limits",
            severity="warning",
            summary=f"reading or writing is limited: {listed(limits.io_limits)} (bytes or operations a second)",
            evidence=["io.max or blkio.throttle.*_device of the control groups; devices as in /sys/dev/block"],
            distorts=["start-up", "data loading"],
            advice=place.advice(
                "take the limit away (IOReadBandwidthMax= and its like), or read from a tmpfs",
                engine="without --device-read-bps, --device-read-iops and their like for writing",
            ),
        )
