"""Fronts on several hosts, started by torchrun, mpirun or srun: that of rank 0 leads, the others start what it needs.

Each follower keeps a connection to the leader. At the word "start" it makes a second one and hands it to a fresh rank,
so that a worker and its ranks find each other as on one host, and are replaced together after a failure.
"""

from __future__ import annotations

import contextlib
import ipaddress
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

from primbench.channel import Channel
from primbench.children import Child
from primbench.errors import InvalidRequest, PrimbenchError, WorkerError
from primbench.launcher import World
from primbench.ranks import readable, start_rank

COME_TIMEOUT_S = 120.0  # a file system that many hosts load Python from is slow
ANSWER_TIMEOUT_S = 10.0
RETRY_S = 0.1


class Hello(msgspec.Struct, frozen=True):
    rank: int


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
            self._fronts = self._accept_all()
        except BaseException:
            self._listener.close()
            raise

    def start(self) -> FollowedRanks:
        """Fresh ranks. Raises WorkerError where one does not come."""
        self._started += 1
        for front in self._fronts:
            front.send(Order("start", self._started))
        return FollowedRanks(self._started, self._fronts, [rank.connection for rank in self._accept_all()])

    def _accept_all(self) -> list[Channel]:
        """A connection from every other rank, in their order."""
        deadline, found = time.monotonic() + COME_TIMEOUT_S, dict[int, Channel]()
        while len(found) < self.world.size - 1:
            self._listener.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                absent = min({*range(1, self.world.size)} - {*found})
                raise WorkerError(f"rank {absent} did not come within {COME_TIMEOUT_S:g} s") from None
            channel = Channel(connection)
            try:
                with _hurrying(connection):
                    _authenticate(connection, self.world.secret, deliver_challenge, answer_challenge)
                    found[channel.receive(Hello).rank] = channel
            except (AuthenticationError, OSError, EOFError, msgspec.MsgspecError):  # a stranger
                channel.close()
        return [found[rank] for rank in sorted(found)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for front in self._fronts:
            with contextlib.suppress(OSError):
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
            except (EOFError, OSError):
                return f"rank {rank} and its front are gone"
            if died.number == self._number:
                return died.cause
        return None

    def stopped(self) -> None:
        """Nobody looks on the other hosts."""

    def end(self) -> None:
        for front in self._fronts:
            with contextlib.suppress(OSError):
                front.send(Order("stop", self._number))


def follow(world: World, *, verbose: bool) -> int:
    """Start a rank whenever the leader wants one; returns the exit status that it sends, 1 where it is gone.

    Raises WorkerError where there is none.
    """
    rank, number = None, 0
    leader = _connect(world)
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
                rank = start_rank(world.rank, _connect(world).connection, verbose=verbose)
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
            leader.send(Died(number, cause))
        rank = None
    try:
        return leader.receive(Order)
    except (EOFError, OSError):
        return Order("exit", status=1)


def _exit_status(error: BaseException | None) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, PrimbenchError):
        return error.exit_code
    return 0 if error is None else 1


def _listen(world: World) -> socket.socket:
    """On the loopback where rank 0 is named by it, else at all addresses: behind NAT its name is none of its own."""
    try:
        family, _, _, _, named = socket.getaddrinfo(world.address, world.port, type=socket.SOCK_STREAM)[0]
        host = str(named[0]) if ipaddress.ip_address(named[0]).is_loopback else ""
        return socket.create_server((host, world.port), family=family, backlog=world.size)
    except OSError as error:
        raise InvalidRequest(
            f"{world.address} port {world.port}: {error.strerror}: set MASTER_ADDR to the host of rank 0 and "
            "PRIMBENCH_PORT to a free port there, for all processes"
        ) from None


def _connect(world: World) -> Channel:
    """A connection to the leader, who may not be there yet."""
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
    except (AuthenticationError, OSError, EOFError):
        channel.close()
        raise WorkerError(f"{world.address} port {world.port} is another job's: set PRIMBENCH_PORT") from None
    channel.send(Hello(world.rank))
    return channel


@contextlib.contextmanager
def _hurrying(connection: socket.socket) -> Iterator[None]:
    """Reads fail after a while inside. By the kernel: a timeout of Python's would not hold for other readers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", round(ANSWER_TIMEOUT_S), 0))
    yield
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def _authenticate(connection: socket.socket, secret: bytes, *challenges: Callable[[Any, bytes], None]) -> None:
    """Both ends prove that they know the secret, without telling it, by the challenges of multiprocessing.

    Raises AuthenticationError, OSError or EOFError. Nothing is unpickled.
    """
    with Connection(os.dup(connection.fileno())) as reader:
        for challenge in challenges:
            challenge(reader, secret)
