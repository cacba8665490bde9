"""The processes of a collective: who they are, and how they take the same decisions.

Every rank knows of the others by channels alone: rank 0 holds one to each of them.
"""

from __future__ import annotations

import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import InvalidRequest, UnsupportedCase

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from primbench.distributed.channel import Channel


class Said(NamedTuple):
    """What one rank brings to an agreement, or what was agreed on; with a refusal the value means nothing."""

    value: Any = None
    refusal: str | None = None


class Refused(UnsupportedCase):
    """A rank cannot take part, and all of them know it by now."""


def first(values: list[Any]) -> Any:
    """What rank 0 brought."""
    return values[0]


class Group:
    """This process among those that take part in a collective. Alone, it agrees with itself.

    Every rank calls agree() at the same points of the same code.

    address: the host by which the other ranks reach rank 0. joined: by a network of their own, of which that is an
    address, whatever they came by.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        channels: Sequence[Channel] = (),
        address: str = "127.0.0.1",
        *,
        joined: bool = False,
    ):
        """channels: those of rank 0 to ranks 1, 2, ..., and of every other rank the one to rank 0."""
        self.rank = rank
        self.size = size
        self.address = address
        self._joined = joined
        self._channels = list(channels)

    def check_size(self, ranks: int) -> None:
        """Raise UnsupportedCase unless as many processes take part as a problem asks for."""
        if self.size != ranks:
            raise UnsupportedCase(f"{ranks} ranks are {ranks} processes: primbench.run and the command line start them")

    def agree(self, value: Any = None, decide: Callable[[list[Any]], Any] = first) -> Any:
        """What rank 0 decides from the values of all ranks, in their order; nobody returns before all have called.

        Values are what JSON can hold. Raises Refused where a rank has called refuse() instead.
        """
        return self._exchange(Said(value), decide)

    def refuse(self, reason: str) -> None:
        """Take part in the next agreement by saying why not. Raises Refused, there and everywhere."""
        self._exchange(Said(refusal=reason), first)

    @contextmanager
    def refusing_together(self) -> Iterator[None]:
        """What one rank inside cannot do, or is not given, becomes Refused on every rank, from the next agreement."""
        try:
            yield
        except Refused:
            raise
        except (UnsupportedCase, InvalidRequest) as reason:
            self.refuse(str(reason))

    def tell(self, message: object) -> None:
        """Send a message from rank 0 to every other rank."""
        for channel in self._channels:
            channel.send(message)

    def listen(self) -> socket.socket:
        """On rank 0, a listener at a free port for the other ranks, who come to the group's address, and no wider."""
        from primbench.distributed.channel import listen_at, listen_beside

        if self._joined:
            return listen_at(self.address)
        return listen_beside(channel.connection for channel in self._channels)

    def on_one_host(self) -> bool:
        """Whether all ranks see the same processes and clock; an agreement, too."""
        return bool(self.agree(host_identity(), lambda hosts: len(set(hosts)) == 1))

    def _exchange(self, mine: Said, decide: Callable[[list[Any]], Any]) -> Any:
        if self.rank:
            (zero,) = self._channels
            zero.send(mine)
            agreed = zero.receive(Said)
        else:
            said = [mine, *(channel.receive(Said) for channel in self._channels)]
            refusals = [_told(rank, refusal) for rank, (_, refusal) in enumerate(said) if refusal is not None]
            agreed = Said(refusal=refusals[0]) if refusals else Said(decide([value for value, _ in said]))
            self.tell(agreed)
        if agreed.refusal is not None:
            raise Refused(agreed.refusal)
        return agreed.value


ALONE = Group()


def _told(rank: int, refusal: str) -> str:
    return f"rank {rank}: {refusal}" if rank else refusal


def host_identity() -> str:
    """A string that is equal for processes of one boot and pid namespace, which see each other's /proc."""
    from primbench.system.boot import boot_id

    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()
