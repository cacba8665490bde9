"""What a process is held to beside CPUs and memory: who goes first on a CPU, and how many files may be open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place

RANK = 4

FEW_FILES = 1024  # the usual soft limit; a data loader of some workers, each with its pipes and files, reaches it
MANY_FILES = 2**20  # who starts a process closes all that may be open: over a minute at 2^30 (moby/moby#45060)


def priority(place: Place) -> Iterator[Finding]:
    """Whether other programs that want the same CPUs go first."""
    limits = place.environment.limits
    yield from unseen("priority", limits, "cpu_weight", "niceness", "scheduling")
    last = [
        *([f"niceness {limits.niceness}"] if (limits.niceness or 0) > 0 else []),
        *([f"the scheduling policy {limits.scheduling}"] if limits.scheduling in ("batch", "idle") else []),
        *([f"a control group of weight {limits.cpu_weight}, where 100 is usual"] if limits.cpu_weight else []),
    ]
    if last:
        yield Finding(
            check="priority",
            severity="warning",
            summary=f"others that want the same CPUs go first: {listed(last)}",
            evidence=["getpriority(), sched_getscheduler(), cpu.weight or cpu.shares of the control groups"],
            distorts=["launch", "copy", "collective", "everything on the CPU"],
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
    many = limits.open_files is None and "open_files" not in limits.missing
    if many or (limits.open_files or 0) > MANY_FILES:
        yield Finding(
            check="open-files",
            severity="note",
            summary=f"{'any number of' if many else limits.open_files} files may be open: programs that close all of "
            "them before they start another take long for it",
            evidence=["getrlimit(RLIMIT_NOFILE)"],
            distorts=["start-up"],
            advice=place.advice(
                "set a limit of 65536 before the start (ulimit -n, LimitNOFILE=)", engine="--ulimit nofile=65536"
            ),
            fix=["ulimit -n 65536"],
        )
    elif limits.open_files is not None and limits.open_files < FEW_FILES:
        yield Finding(
            check="open-files",
            severity="warning",
            summary=f"{limits.open_files} files may be open at a time: data loaders and collectives of many ranks fail",
            evidence=["getrlimit(RLIMIT_NOFILE), the soft limit"],
            distorts=["collective", "start-up"],
            advice=place.advice("raise the soft limit to the hard one", engine="--ulimit nofile=65536"),
            fix=["ulimit -n 65536"],
        )
