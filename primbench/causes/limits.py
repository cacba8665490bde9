"""What a process is held to beside CPUs and memory: who goes first on a CPU, open files, reading and writing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.causes import OF_FILES, ON_CPU
from primbench.causes._job_cpus import others_first
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.threads import COME_LAST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.cause import Severity
    from primbench.doctor.place import Place
    from primbench.spec.setting import Activity

RANK = 4

# A data loader's tensors are a file each until they are taken: 1024, the usual soft limit, is too few for some workers
# (pytorch/pytorch#973, lightly-ai/lightly#487).
ENOUGH_FILES, FEW_FILES = 4096, 1024
REAL_TIME = ("fifo", "rr")
MANY_OPEN = 10_000
NEARLY_ALL = 0.9  # of the files that may be open
MANY_FILES = 2**20  # who starts a process closes all that may be open: over a minute at 2^30 (moby/moby#45060)


def priority(place: Place) -> Iterator[Finding]:
    """Whether other programs that want the same CPUs go first."""
    own, of_session = place.limits.niceness or 0, place.limits.session_niceness or 0
    last = [
        *([f"niceness {own}"] if own > 0 else []),
        *([f"niceness {of_session} of the session"] if of_session > 0 else []),
        *([f"the scheduling policy {place.limits.scheduling}"] if place.limits.scheduling in COME_LAST else []),
        *(
            [f"a control group of weight {place.limits.cpu_weight}, where 100 is usual"]
            if place.limits.cpu_weight
            else []
        ),
    ]
    if last:
        yield Finding(
            summary=f"others that want the same CPUs go first: {listed(last)}",
            values=[own, of_session, place.limits.scheduling or "", place.limits.cpu_weight or 0],
            evidence=[f"getpriority(), {place.proc}/autogroup, sched_getscheduler(), cpu.weight, cpu.shares"],
            advice=place.advice(
                "start it without nice, chrt and CPUWeight=, or on CPUs that nobody else uses",
                engine="--cpu-shares 1024 or more, or --cpuset-cpus that nobody else has",
                kubernetes="requests as large as what it uses: the weight follows from them",
            ),
        )


def many_open_files(place: Place) -> Iterator[Finding]:
    """Whether enough files may be open at a time, and not so many that closing them all takes long."""
    files = math.inf if place.limits.open_files is None else place.limits.open_files
    if "open_files" not in place.limits.missing and files > MANY_FILES:
        yield _open_files(
            place,
            severity="note",
            files=files,
            summary=f"{'any number of' if files == math.inf else files} files may be open: programs that close all of "
            "them before they start another take long for it",
            distorts=["start-up"],
        )
    elif files < ENOUGH_FILES:
        yield _open_files(
            place,
            severity="warning" if files < FEW_FILES else "note",
            files=files,
            summary=f"{files} files may be open at a time: data loaders of many workers and collectives of many ranks "
            "fail",
            distorts=["collective", "start-up", "data loading"],
        )


def _open_files(place: Place, *, severity: Severity, files: float, summary: str, distorts: list[Activity]) -> Finding:
    return Finding(
        severity=severity,
        summary=summary,
        values=[files],
        evidence=["getrlimit(RLIMIT_NOFILE), the soft limit"],
        distorts=distorts,
        advice=place.advice(
            "set another soft limit before the start (LimitNOFILE=, ulimit -n)", engine="--ulimit nofile=65536"
        ),
        fix=["ulimit -n 65536"],
    )


def descriptors(place: Place) -> Iterator[Finding]:
    """Whether more files are open than each program that is started should be given, or about as many as may be."""
    if place.limits.descriptors is not None and place.limits.descriptors >= NEARLY_ALL * (
        place.limits.open_files or math.inf
    ):
        yield Finding(
            severity="problem",
            summary=f"{place.limits.descriptors} of the {place.limits.open_files} files that may be open at a "
            "time are: what opens more fails",
            values=[place.limits.descriptors, place.limits.open_files or 0],
            evidence=[f"{place.proc}/fd", "getrlimit(RLIMIT_NOFILE), the soft limit"],
            distorts=["data loading", "collective"],
            advice="close what is not needed any more (lsof -p shows what is open), or raise the limit",
        )
    if place.limits.descriptors is not None and place.limits.descriptors > MANY_OPEN:
        yield Finding(
            summary=f"{place.limits.descriptors} files are open: each program that is started is given a copy of "
            "the table",
            values=[place.limits.descriptors],
            evidence=[f"{place.proc}/fd"],
            advice="let what starts it open its files with O_CLOEXEC, or close them",
        )


def cpu_time(place: Place) -> Iterator[Finding]:
    """Whether a process may compute for as long as it likes, and is not killed after some time."""
    if place.limits.cpu_time_limit_s is not None:
        yield Finding(
            summary=f"each process is killed once its threads together have computed for "
            f"{place.limits.cpu_time_limit_s:g} s",
            values=[place.limits.cpu_time_limit_s],
            evidence=["getrlimit(RLIMIT_CPU), the soft limit"],
            advice=place.advice(
                "take the limit away (place.limits.conf, LimitCPU=, ulimit -t), or ask the batch system for more time",
                engine="without --ulimit cpu=",
            ),
        )


def realtime_time(place: Place) -> Iterator[Finding]:
    """Whether who runs before all others, under fifo or rr, may do so for as long as it likes."""
    if place.limits.realtime_limit_s is not None and place.limits.scheduling in REAL_TIME:
        yield Finding(
            summary=f"under the policy {place.limits.scheduling} it is killed once a thread has computed for "
            f"{place.limits.realtime_limit_s:g} s without sleeping",
            values=[place.limits.realtime_limit_s],
            evidence=["getrlimit(RLIMIT_RTTIME), the soft limit", "sched_getscheduler()"],
            at_most=1.0,
            advice="take the limit away (LimitRTTIME=, place.limits.conf), or run under the usual policy",
        )


def io_limits(place: Place) -> Iterator[Finding]:
    """Whether reading from disks and writing to them is held to so many bytes or operations a second."""
    if place.limits.io_limits:
        yield Finding(
            summary=f"reading or writing is limited: {listed(place.limits.io_limits)} (bytes or operations a second)",
            values=[*place.limits.io_limits],
            evidence=["io.max or blkio.throttle.*_device of the control groups; devices as in /sys/dev/block"],
            advice=place.advice(
                "take the limit away (IOReadBandwidthMax= and its like), or read from a tmpfs",
                engine="without --device-read-bps, --device-read-iops and their like for writing",
            ),
        )


CAUSES = (
    Cause("priority", title="another priority",
          slows=("launch", "copy", "collective", "everything on the CPU", *OF_FILES), times=350.0,
          source="weights of tasks: 1024 usually, 15 with nice 19, 3 of the policy idle (Linux, kernel/sched/core.c)",
          upstream=6, stops=True, explains_away=("priority", "cpu-contention", "launches"), severity="warning",
          effect="where other programs want the same CPUs, these go first on one side",
          reads=of("limits", "cpu_weight", "niceness", "session_niceness", "scheduling"), here=priority,
          in_job=others_first),
    Cause("open-files", slows=OF_FILES,
          source="1024: workers fail (pytorch/pytorch#973); 2^30: over a minute to close them (moby/moby#45060)",
          upstream=8, refuses=r"Too many open files",
          effect="loaders run out of files, or who starts a program closes very many", reads=of("limits", "open_files"),
          here=many_open_files),
    Cause("descriptors", slows=OF_FILES, reads=of("limits", "descriptors"), here=descriptors),
    Cause("file-size", slows=OF_FILES, upstream=8, refuses=r"File too large|SIGXFSZ",
          effect="what is written beyond it is refused"),
    Cause("cpu-time", slows=(*ON_CPU, "copy", "collective", *OF_FILES), refuses=r"SIGXCPU|SIGKILL",
          effect="a process is killed once it has computed for so long", reads=of("limits", "cpu_time_limit_s"),
          here=cpu_time),
    Cause("realtime-time", slows=(*ON_CPU, "copy", "collective", *OF_FILES), upstream=8, refuses=r"SIGXCPU|SIGKILL",
          effect="under fifo and rr a process is killed once it has computed for so long without sleeping",
          reads=of("limits", "realtime_limit_s", "scheduling"), here=realtime_time),
    Cause("io-limits", title="other limits of reading and writing", slows=OF_FILES, upstream=8,
          effect="so many bytes or operations a second are read and written at most", reads=of("limits", "io_limits"),
          here=io_limits),
)  # fmt: skip
