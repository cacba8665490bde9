"""A process in words: its number, the name of the container that it is the first process of, or a job's of Slurm."""

from __future__ import annotations

from primbench.errors import InvalidRequest

OF_SLURM = "slurm:"


def processes_of(job: str) -> list[int]:
    """Those of a job: a number, the name of a container, or "slurm:4711" of Slurm. The first one tells when it ends.

    Raises InvalidRequest.
    """
    if job.startswith(OF_SLURM):
        from primbench.runtimes.slurm import processes_here

        return processes_here(job.removeprefix(OF_SLURM))
    by_number = job.isascii() and job.isdecimal()
    return [process_of(int(job) if by_number else None, None if by_number else job)]


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
