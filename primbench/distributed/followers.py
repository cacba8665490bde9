"""Fronts on several hosts, started by torchrun, mpirun or srun: that of rank 0 leads, the others start what it needs.

Each follower keeps a connection to the leader. At the word "start" it makes a second one and hands it to a fresh rank,
so that a worker and its ranks find each other as on one host, and are replaced together after a failure.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from primbench.distributed import rendezvous
from primbench.distributed.channel import Channel, listen
from primbench.distributed.child import Child, readable
from primbench.distributed.ranks import start_rank
from primbench.errors import InvalidRequest, PrimbenchError, WorkerError

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from types import TracebackType

    from primbench.distributed.world import World


class FollowerCommand(msgspec.Struct, frozen=True):
    """What the leader has a follower do."""

    kind: Literal["start", "stop", "exit"]
    number: int = 0
    """Which rank it is about, counted from 1."""
    status: int = 0
    """What a follower is to exit with."""


class Died(msgspec.Struct, frozen=True):
    """Message of a follower: what the rank that it had started by command ``number`` died of."""

    number: int
    cause: str


class Leader:
    """In the process of rank 0. A context manager: leaving it sends the followers home with its own exit status."""

    def __init__(self, world: World, listener: socket.socket | None = None) -> None:
        """Waits for all followers. Raises InvalidRequest where they cannot come, WorkerError where one does not.

        listener: at the world's address and port, where there is one already.
        """
        self.world = world
        self._started = 0
        self._listener = listener or _listen(world)
        try:
            self._followers = self._accept_all(0)
        except BaseException:
            self._listener.close()
            raise

    def start(self) -> FollowedRanks:
        """Fresh ranks. Raises WorkerError where one does not come."""
        self._started += 1
        for rank, follower in enumerate(self._followers, 1):
            try:
                follower.send(FollowerCommand("start", self._started))
            except EOFError:
                raise WorkerError(f"rank {rank} and its primbench are gone: launch all ranks again") from None
        channels = self._accept_all(self._started)
        return FollowedRanks(self._started, self._followers, [channel.connection for channel in channels])

    def _accept_all(self, number: int) -> list[Channel]:
        """A connection from every other rank, in their order, made for that number."""
        return rendezvous.meet(self._listener, self.world.secret, range(1, self.world.size), number, self.world.come_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for follower in self._followers:
            with contextlib.suppress(EOFError):
                follower.send(FollowerCommand("exit", status=_exit_status(error)))
            follower.close()
        self._listener.close()


class FollowedRanks:
    """Ranks that followers have started."""

    def __init__(self, number: int, followers: Sequence[Channel], sockets: Sequence[socket.socket]) -> None:
        self._number = number
        self._followers = followers
        self.sockets = sockets
        self.watched: Sequence[int] = [follower.connection.fileno() for follower in followers]

    def fate(self) -> str | None:
        causes = (self._fate(rank, follower) for rank, follower in enumerate(self._followers, 1))
        return next((cause for cause in causes if cause is not None), None)

    def _fate(self, rank: int, follower: Channel) -> str | None:
        while follower.has_line or readable([follower.connection.fileno()], 0.0):
            try:
                died = follower.receive(Died)
            except EOFError:
                return f"rank {rank} and its primbench are gone"
            if died.number == self._number:
                return died.cause
        return None

    def stopped(self) -> None:
        """None: whether a process of another host stands still cannot be seen from here."""

    def end(self) -> None:
        for peer in self.sockets:
            peer.close()
        for follower in self._followers:
            with contextlib.suppress(EOFError):
                follower.send(FollowerCommand("stop", self._number))


def follow(world: World, *, verbose: bool) -> int:
    """Start a rank whenever the leader wants one; returns the exit status that it sends, 1 where it is gone.

    Raises WorkerError where there is none.
    """
    rank, number = None, 0
    leader = _connect(world, number)
    try:
        while True:
            command = _next_command(leader, rank, number)
            if rank is not None:
                rank.end()
                rank = None
            if command.kind == "exit":
                return command.status
            if command.kind == "start":
                number = command.number
                channel = _connect(world, number).connection
                rank = start_rank(world.rank, channel, local_rank=world.local_rank, verbose=verbose)
    finally:
        if rank is not None:
            rank.end()
        leader.close()


def _next_command(leader: Channel, rank: Child | None, number: int) -> FollowerCommand:
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
        return leader.receive(FollowerCommand)
    except EOFError:
        return FollowerCommand("exit", status=1)


def _exit_status(error: BaseException | None) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, PrimbenchError):
        return error.exit_code
    return 0 if error is None else 1


def _listen(world: World) -> socket.socket:
    try:
        return listen(world.address, world.port, world.size + rendezvous.MOST_GUESTS)
    except OSError as error:
        raise InvalidRequest(
            f"{world.address} port {world.port}: {error.strerror}: set MASTER_ADDR to the host of rank 0 and "
            "PRIMBENCH_PORT to a free port there, for all processes"
        ) from None


def _connect(world: World, number: int) -> Channel:
    """A connection to the leader, made for that number. Raises WorkerError."""
    try:
        return rendezvous.join((world.address, world.port), world.secret, world.rank, number, world.come_s)
    except rendezvous.NotOurs:
        raise WorkerError(f"{world.address} port {world.port} is another job's: set PRIMBENCH_PORT") from None
