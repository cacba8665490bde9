"""Pairs of a fleet's nodes: who meets whom in which round, and how two find each other by a folder that both see.

Each node has a file there, which only its own process writes: on the first line its name and that of its results file,
then a line for each pair that it has come to, the lower one's with where it listens. Who waits looks whether the other
has come, until it gives no more signs of life, or neither of its files has grown for too long. Files are opened anew at
each look, and can be read by their owner alone.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from primbench.distributed.channel import is_loopback, listen
from primbench.distributed.world import World, launched
from primbench.errors import OutputError, WorkerError
from primbench.fleet.signs import LOST_S, Patience, size_bytes
from primbench.system.inputs import content
from primbench.system.outputs import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from primbench.spec.fleet import Member

LOOK_S = 0.2
_NUMBERS = {"torchrun": "GROUP_RANK", "srun": "SLURM_NODEID"}
# Towards these a node looks for its own address: of the launcher; of RFC 5737 and RFC 3849, which stand for any other.
_TOWARDS = ("SLURM_LAUNCH_NODE_IPADDR", "MASTER_ADDR")
_ANYWHERE = ("192.0.2.1", "2001:db8::1")
_DISCARD = 9  # a port, of which there has to be one


class Offer(msgspec.Struct, frozen=True):
    """Where the lower one of a pair listens."""

    address: str
    port: int
    secret: str


class LinkLine(msgspec.Struct, frozen=True):
    """A line of a node's file."""

    pair: tuple[int, int] | None = None
    """The pair that the node has come to; None on the first line, which has its name and results file."""
    offer: Offer | None = None
    name: str = ""
    results: str = ""


def number_of(found: Member, variables: Mapping[str, str] = os.environ) -> int:
    """Which of the fleet's members this is, from 0, whatever ranks are between them."""
    text = variables.get(_NUMBERS.get(found.launcher or "", ""), "")
    if found.task is None and text.isdecimal():
        return int(text)
    by_launcher = launched(variables)
    if found.task is not None or by_launcher is None:
        return found.rank
    return found.rank // (by_launcher.local_size or 1)


def partners(number: int, of: int, rounds: int) -> Iterator[int]:
    """Whom a node meets, round by round, all different; who is left over in a round meets nobody.

    The circle method, by which in each round everybody meets at most one: of n nodes, i and j do whose sum is the
    round's number modulo n - 1, and the last one meets who would meet itself.
    """
    even = of + of % 2
    for each in range(min(rounds, even - 1)):
        other = (each * (even // 2) if number == even - 1 else each - number) % (even - 1)
        partner = even - 1 if other == number else other
        if partner < of:
            yield partner


def pairs(of: int, rounds: int) -> int:
    """How many meet in so many rounds, all nodes together."""
    return sum(1 for number in range(of) for _ in partners(number, of, rounds)) // 2


@dataclass(frozen=True)
class Met:
    """Two nodes that have met."""

    world: World
    """The two as ranks of one call."""
    listener: socket.socket | None
    """Where rank 0 listens, which is the lower number."""
    name: str
    """Name of the other node."""


class Meeting:
    """A node's place among those that come to one folder."""

    def __init__(self, folder: Path, number: int, *, name: str, results: str) -> None:
        """Raises OutputError where the folder cannot be written to."""
        self.number = number
        self._folder = folder
        try:
            folder.mkdir(exist_ok=True)
            note(self._file(number), b"", anew=True, mode=0o600)
        except OSError as error:
            raise OutputError(f"{folder}: {error.strerror}: nodes cannot meet by it") from None
        self._write(LinkLine(name=name, results=results))

    def name_of(self, number: int) -> str:
        """As it calls itself, where it has said so."""
        lines = self._lines(number)
        return lines[0].name if lines else f"node {number}"

    def meet(self, other: int, patience_s: float) -> Met:
        """Come to the pair, and wait for the other one. Raises WorkerError where it does not come."""
        pair = min(self.number, other), max(self.number, other)
        if self.number == pair[0]:
            address = own_address()
            listener = listen(address, 0)
            offer = Offer(address, listener.getsockname()[1], secrets.token_hex(16))
            self._write(LinkLine(pair, offer))
            try:
                self._await(other, pair, patience_s)
            except BaseException:
                listener.close()
                raise
            return Met(_world(offer, 0), listener, self.name_of(other))
        self._write(LinkLine(pair))
        theirs = self._await(other, pair, patience_s).offer
        if theirs is None:
            raise WorkerError(f"{self._file(other)}: says nowhere to meet")
        return Met(_world(theirs, 1), None, self.name_of(other))

    def _await(self, other: int, pair: tuple[int, int], patience_s: float) -> LinkLine:
        patience = Patience(patience_s)
        while True:
            lines = self._lines(other)
            for line in lines:
                if line.pair == pair:
                    return line
            results = self._folder.parent / lines[0].results if lines else None
            if patience.is_over((len(lines), size_bytes(results) if results else 0), results):
                raise WorkerError(f"{self.name_of(other)} did not come: it died, or was stopped")
            time.sleep(LOOK_S)

    def _file(self, number: int) -> Path:
        return self._folder / str(number)

    def _write(self, line: LinkLine) -> None:
        note(self._file(self.number), msgspec.json.encode(line) + b"\n")

    def _lines(self, number: int) -> list[LinkLine]:
        """Those that are whole: on a network the last one may be seen in part. Another launch's file means nothing."""
        try:
            text = content(self._file(number))
            return [msgspec.json.decode(line, type=LinkLine) for line in text.split(b"\n")[:-1]]
        except (OSError, msgspec.MsgspecError):
            return []


def _world(offer: Offer, rank: int) -> World:
    return World(
        launcher="a fleet",
        rank=rank,
        size=2,
        local_rank=0,
        address=offer.address,
        port=offer.port,
        secret=offer.secret.encode(),
        come_s=LOST_S,
    )


def own_address(variables: Mapping[str, str] = os.environ) -> str:
    """That by which other hosts reach this one, as routes say; the loopback's where there is no other."""
    known = [variables[name] for name in _TOWARDS if variables.get(name)]
    found = (_address_towards(each) for each in (*known, *_ANYWHERE))
    return next((each for each in found if each and not is_loopback(each)), "127.0.0.1")


def _address_towards(host: str) -> str | None:
    """No packet is sent for it."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, _DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asked:
            asked.connect(place)
            return str(asked.getsockname()[0])
    except (OSError, UnicodeError):  # no route, or no such host
        return None
