"""The further ranks of a worker, as the main process sees them: started, watched, and ended with the worker.

The main process does so because it is never in a collective itself: a rank that waits for a dead one can do nothing.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from primbench.distributed.child import Child, readable, starting
from primbench.system.processes import fields_of_stat, folder_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_STOPPED = ("T", "t")  # proc(5): by a signal, by a debugger


class Ranks(Protocol):
    """sockets: rank 0's ends of the channels to ranks 1, 2, ...; watched: descriptors that tell when to ask fate()."""

    @property
    def sockets(self) -> Sequence[socket.socket]: ...

    @property
    def watched(self) -> Sequence[int]: ...

    def fate(self) -> str | None:
        """What ended a rank, if one has ended."""

    def stopped(self) -> str | None:
        """Which rank stands still, where that can be seen."""

    def end(self) -> None:
        """Close the sockets, and end all ranks."""


class LocalRanks:
    """Processes of this host, one a rank."""

    def __init__(self, count: int, *, verbose: bool) -> None:
        """Raises NotStarted where the system has no room for so many, and leaves none behind."""
        self.sockets: list[socket.socket] = []
        self._children: list[Child] = []
        try:
            for rank in range(1, count + 1):
                with starting(f"rank {rank}"):
                    ours, theirs = socket.socketpair()
                self.sockets.append(ours)
                self._children.append(start_rank(rank, theirs, local_rank=rank, verbose=verbose))
        except BaseException:
            self.end()
            raise
        self.watched: Sequence[int] = [child.stdout for child in self._children]

    def fate(self) -> str | None:
        """What ended a rank, one killed by a signal first, as others may have died of its loss; None if all run."""
        ended = [child for child in self._children if readable([child.stdout], 0.0)]
        causes = {child: child.cause_of_death() for child in ended}
        failed = sorted((child for child in causes if child.has_failed), key=lambda child: not child.was_killed)
        return causes[failed[0]] if failed else None

    def stopped(self) -> str | None:
        return next((f"{child.name} is stopped" for child in self._children if _state(child.pid) in _STOPPED), None)

    def end(self) -> None:
        for peer in self.sockets:
            peer.close()
        for child in self._children:
            child.end()


def start_rank(rank: int, channel: socket.socket, *, local_rank: int, verbose: bool) -> Child:
    """A further rank of a worker, which is at the other end of the channel."""
    with channel:
        descriptor = channel.fileno()
        arguments = [str(descriptor), str(local_rank)]
        return Child(f"rank {rank}", "primbench.workers.rank", arguments, inherited=[descriptor], verbose=verbose)


def _state(pid: int) -> str:
    """A process's state letter as proc(5) has it, such as "T" for stopped; "" where it cannot be read."""
    try:
        return fields_of_stat(folder_of(Path("/"), pid) / "stat")[0]
    except (OSError, IndexError):
        return ""
