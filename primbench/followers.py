"""Fronts on several hosts, started by torchrun, mpirun or srun: that of rank 0 leads, the others start what it needs.

Each follower keeps a connection to the leader. At the word "start" it makes a second one and hands it to a fresh rank,
so that a worker and its ranks find each other as on one host, and are replaced together after a failure.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from primbench.channel import Channel, listen
from primbench.children import Child
from primbench.errors import InvalidRequest, PrimbenchError, WorkerError
from primbench.launcher import World
from primbench.ranks import readable, start_rank

COME_TIMEOUT_S = 120.0  # a file system that many hosts load Python from is slow
ANSWER_TIMEOUT_S = 10.0
RETRY_S = 0.1

# What an end that is not of this launch makes of a meeting. AssertionError: Python 3.11's word for a bad challenge.
_STRANGE = (AuthenticationError, AssertionError, OSError, EOFError, msgspec.MsgspecError)


class Hello(msgspec.Struct, frozen=True):
    """To the leader, first on every connection. number: of the order to start that it answers; 0 from a front."""

    rank: int
    number: int


class Order(msgspec.Struct, frozen=True):
    """From the leader. number: which rank it is about, counted from 1. status: what a follower is to exit with."""

    kind: Literal["start", "stop", "exit"]
    number: int = 0
    status: int = 0


class Died(msgspec.Struct, frozen=True):
    """From a follower: what its rank of that number died of."""

    number: int
    cause: str


class Leader:
    """The front of rank 0. A context manager: leaving it sends the followers home with its own exit status."""

    def __init__(self, world: World) -> None:
        """Waits for all followers. Raises InvalidRequest where they cannot come, WorkerError where one does not."""
        self.world = world
        self._started = 0
        self._listener = _listen(world)
        try:
            self._fronts = self._accept_all(0)
        except BaseException:
            self._listener.close()
            raise

    def start(self) -> FollowedRanks:
        """Fresh ranks. Raises WorkerError where one does not come."""
        self._started += 1
        for rank, front in enumerate(self._fronts, 1):
            try:
                front.send(Order("start", self._started))
            except EOFError:
                raise WorkerError(f"rank {rank} and its front are gone: launch all ranks again") from None
        channels = self._accept_all(self._started)
        return FollowedRanks(self._started, self._fronts, [channel.connection for channel in channels])

    def _accept_all(self, number: int) -> list[Channel]:
        """A connection from every other rank, in their order, that begins with a Hello of that number."""
        deadline, found = time.monotonic() + COME_TIMEOUT_S, dict[int, Channel]()
        while len(found) < self.world.size - 1:
            self._listener.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                absent = next(rank for rank in range(1, self.world.size) if rank not in found)
                raise WorkerError(f"rank {absent} did not come within {COME_TIMEOUT_S:g} s") from None
            channel = Channel(connection)
            rank = self._rank_of(channel, number)
            if rank is None or rank in found:
                channel.close()
            else:
                found[rank] = channel
        return [found[rank] for rank in sorted(found)]

    def _rank_of(self, channel: Channel, number: int) -> int | None:
        """None of a stranger, and of who comes too late: another launch may have the same secret."""
        try:
            with _hurrying(channel.connection):
                _authenticate(channel.connection, self.world.secret, deliver_challenge, answer_challenge)
                hello = channel.receive(Hello)
        except _STRANGE:
            return None
        return hello.rank if hello.number == number and 0 < hello.rank < self.world.size else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for front in self._fronts:
            with contextlib.suppress(EOFError):
                front.send(Order("exit", status=_exit_status(error)))
            front.close()
        self._listener.close()


class FollowedRanks:
    """Ranks that followers have started."""

    def __init__(self, number: int, fronts: Sequence[Channel], sockets: Sequence[socket.socket]) -> None:
        self._number = number
        self._fronts = fronts
        self.sockets = sockets
        self.watched: Sequence[int] = [front.connection.fileno() for front in fronts]

    def fate(self) -> str | None:
        causes = (self._fate(rank, front) for rank, front in enumerate(self._fronts, 1))
        return next((cause for cause in causes if cause is not None), None)

    def _fate(self, rank: int, front: Channel) -> str | None:
        while front.has_line or readable([front.connection.fileno()], 0.0):
            try:
                died = front.receive(Died)
            except EOFError:
                return f"rank {rank} and its front are gone"
            if died.number == self._number:
                return died.cause
        return None

    def stopped(self) -> None:
        """Nobody looks on the other hosts."""

    def end(self) -> None:
        for peer in self.sockets:
            peer.close()
        for front in self._fronts:
            with contextlib.suppress(EOFError):
                front.send(Order("stop", self._number))


def follow(world: World, *, verbose: bool) -> int:
    """Start a rank whenever the leader wants one; returns the exit status that it sends, 1 where it is gone.

    Raises WorkerError where there is none.
    """
    rank, number = None, 0
    leader = _connect(world, number)
    try:
        while True:
            order = _next_order(leader, rank, number)
            if rank is not None:
                rank.end()
                rank = None
            if order.kind == "exit":
                return order.status
            if order.kind == "start":
                number = order.number
                channel = _connect(world, number).connection
                rank = start_rank(world.rank, channel, local_rank=world.local_rank, verbose=verbose)
    finally:
        if rank is not None:
            rank.end()
        leader.close()


def _next_order(leader: Channel, rank: Child | None, number: int) -> Order:
    """Wait for it, and tell the leader when the rank dies meanwhile."""
    while rank is not None and not leader.has_line:
        if leader.connection.fileno() in readable([leader.connection.fileno(), rank.stdout], None):
            break
        cause = rank.cause_of_death()
        if rank.has_failed:
            with contextlib.suppress(EOFError):
                leader.send(Died(number, cause))
        rank = None
    try:
        return leader.receive(Order)
    except EOFError:
        return Order("exit", status=1)


def _exit_status(error: BaseException | None) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, PrimbenchError):
        return error.exit_code
    return 0 if error is None else 1


def _listen(world: World) -> socket.socket:
    try:
        return listen(world.address, world.port, world.size)
    except OSError as error:
        raise InvalidRequest(
            f"{world.address} port {world.port}: {error.strerror}: set MASTER_ADDR to the host of rank 0 and "
            "PRIMBENCH_PORT to a free port there, for all processes"
        ) from None


def _connect(world: World, number: int) -> Channel:
    """A connection to the leader, who may not be there yet. number: as in Hello. Raises WorkerError."""
    deadline = time.monotonic() + COME_TIMEOUT_S
    while True:
        try:
            connection = socket.create_connection((world.address, world.port), ANSWER_TIMEOUT_S)
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise WorkerError(f"rank 0 is not at {world.address} port {world.port}: {error.strerror}") from None
            time.sleep(RETRY_S)
    connection.settimeout(None)
    channel = Channel(connection)
    try:
        with _hurrying(connection):
            _authenticate(connection, world.secret, answer_challenge, deliver_challenge)
        channel.send(Hello(world.rank, number))
    except _STRANGE:
        channel.close()
        raise WorkerError(f"{world.address} port {world.port} is another job's: set PRIMBENCH_PORT") from None
    return channel


@contextlib.contextmanager
def _hurrying(connection: socket.socket) -> Iterator[None]:
    """Reads fail after a while inside. By the kernel: a timeout of Python's would not hold for other readers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", round(ANSWER_TIMEOUT_S), 0))
    yield
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def _authenticate(connection: socket.socket, secret: bytes, *challenges: Callable[[Any, bytes], None]) -> None:
    """Both ends prove that they know the secret, without telling it, by the challenges of multiprocessing.

    Raises what is in _STRANGE. Nothing is unpickled.
    """
    with Connection(os.dup(connection.fileno())) as reader:
        for challenge in challenges:
            challenge(reader, secret)
