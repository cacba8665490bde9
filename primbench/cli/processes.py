"""A process in words: its number, the name of the container that it is the first process of, or a job's of Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.watching.members import Others

OF_SLURM = "slurm:"


def processes_of(job: str) -> tuple[list[int], Others | None]:
    """Those of a job: a number, the name of a container, or "slurm:4711" of Slurm, and who joins it later on.

    None of these where its first process tells when it ends. Raises InvalidRequest.
    """
    if job.startswith(OF_SLURM):
        from primbench.runtimes.slurm import goes_on, is_of, processes_here
        from primbench.watching.members import Others

        number = job.removeprefix(OF_SLURM)
        return processes_here(number), Others(lambda pid: is_of(number, pid), lambda: goes_on(number))
    if job.isascii() and job.isdecimal():
        return [process_of(int(job), None)], None
    from primbench.watching.members import in_groups_of

    first = process_of(None, job)
    return [first], in_groups_of(Path("/"), first)


def process_of(pid: int | None, container: str | None) -> int:
    """Its number, 0 where neither is asked for. Raises InvalidRequest."""
    if pid == 0:
        raise InvalidRequest("process 0: numbers of processes begin with 1")
    if container is None:
        return pid or 0
    if pid is not None:
        raise InvalidRequest(f"--pid {pid} and --container {container}: one of them")
    from primbench.runtimes.containers import first_process

    return first_process(container)
