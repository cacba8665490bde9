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

        name = job.removeprefix(OF_SLURM)
        return processes_here(name), Others(lambda pid: is_of(name, pid), lambda: goes_on(name))
    if job.isascii() and job.isdecimal():
        if (number := int(job)) == 0:
            raise InvalidRequest("process 0: numbers of processes begin with 1")
        return [number], None
    from primbench.runtimes.containers import first_process
    from primbench.watching.members import in_groups_of

    first = first_process(job)
    return [first], in_groups_of(Path("/"), first)
