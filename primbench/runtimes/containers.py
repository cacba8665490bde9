"""Containers that run, by the names that their engines give them."""

from __future__ import annotations

from primbench.errors import InvalidRequest
from primbench.runtimes.invocation import answer
from primbench.runtimes.table import known


def first_process(container: str) -> int:
    """The number, outside, of its first process. Raises InvalidRequest where no engine here runs one of this name."""
    said = []
    for client in (name for name, runtime in known().items() if runtime.is_engine):
        reason, line = answer([client, "inspect", "--type=container", "--format={{.State.Pid}}", "--", container])
        if reason is None and line.isdecimal() and int(line):
            return int(line)
        said.append(f"{client}: {reason or 'it does not run'}")
    raise InvalidRequest(f"container {container!r}: {'; '.join(said)}")
