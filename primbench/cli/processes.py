"""A process in words: its number, or the name of the container that it is the first process of."""

from __future__ import annotations

from primbench.errors import InvalidRequest


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
