"""A process in words: its number, the name of the container that it is the first process of, or a job's of Slurm."""

from __future__ import annotations

from primbench.errors import InvalidRequest

OF_SLURM = "slurm:"


def processes_of(job: str) -> list[int]:
    """Those of a job: a number, the name of a container, or "slurm:4711" of Slurm. Raises InvalidRequest."""
    if job.startswith(OF_SLURM):
        from primbench.runtimes.slurm import processes_here

        return processes_here(job.removeprefix(OF_SLURM))
    if job.isascii() and job.isdecimal():
        if (number := int(job)) == 0:
            raise InvalidRequest("process 0: numbers of processes begin with 1")
        return [number]
    from primbench.runtimes.containers import first_process

    return [first_process(job)]
