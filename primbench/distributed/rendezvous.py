"""How processes of one launch meet at a port that anybody can connect to: each proves that it knows their secret.

The leader sends a number drawn for the occasion, the follower answers with one of its own and a keyed hash of both, the
leader with another hash of both: the secret is not told, and what is said proves nothing on another connection.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import msgspec

from primbench.distributed.channel import Channel
from primbench.distributed.world import COME_S
from primbench.errors import WorkerError
from primbench.system.jsonlines import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Collection

ANSWER_TIMEOUT_S = 10.0
RETRY_S = 0.1
MOST_BYTES = 1024  # in a message, one line
MOST_GUESTS = 256


class Challenge(msgspec.Struct, frozen=True):
    """Message of the leader to whoever connects: a random string that the answer's proof must cover."""

    drawn: str


class Hello(msgspec.Struct, frozen=True):
    """Message of a follower: which rank it is, its own random string, and its proof of the secret."""

    rank: int
    number: int
    """Number of the command to start ranks that it answers; 0 from the follower itself."""
    drawn: str
    proof: str


class Welcome(msgspec.Struct, frozen=True):
    """Message of the leader: its own proof of the secret; None to a follower whose proof is wrong."""

    proof: str | None


class NotOurs(Exception):
    """What answers at the port is of another launch, or no primbench."""


def meet(
    listener: socket.socket, secret: bytes, ranks: Collection[int], number: int, come_s: float = COME_S
) -> list[Channel]:
    """A connection from each of the ranks, in their order, made for that number, within ``come_s``.

    Another launch with the same secret, and who comes too late, finds it closed. Raises WorkerError where a rank does
    not come.
    """
    deadline, found = time.monotonic() + come_s, dict[int, Channel]()
    with contextlib.ExitStack() as unless_all_come:
        with _Guests(listener, secret) as guests:
            while absent := [rank for rank in ranks if rank not in found]:
                if time.monotonic() > deadline:
                    raise WorkerError(f"rank {absent[0]} did not come within {come_s:g} s")
                for hello, channel in guests.known(deadline):
                    if hello.number == number and hello.rank in {*ranks} - found.keys():
                        found[hello.rank] = channel
                        unless_all_come.callback(channel.close)
                    else:
                        channel.close()
        unless_all_come.pop_all()
    return [found[rank] for rank in ranks]


@dataclass
class _Guest:
    """Who has come, and has until the deadline to say who it is."""

    drawn: str
    deadline: float
    said: bytes = b""
    """What it has said so far."""


class _Guests:
    """Connections that have proven nothing yet. All are read at the same time, so that none holds up another.

    Where they are too many, the one that has been silent for longest goes.
    """

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self._listener, self._secret = listener, secret
        self._guests: dict[socket.socket, _Guest] = {}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        self._listener.settimeout(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._guests):
            self._turn_away(connection)
        self._selector.close()

    def known(self, deadline: float) -> list[tuple[Hello, Channel]]:
        """Who has proven itself meanwhile: until there is news of somebody, or the deadline."""
        ends = min([deadline, *(guest.deadline for guest in self._guests.values())])
        found = []
        for key, _ in self._selector.select(max(0.0, ends - time.monotonic())):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if connection is self._listener:
                self._let_in()
            elif connection in self._guests and (hello := self._heard(connection)) is not None:
                found.append((hello, Channel(connection)))
        for connection in [each for each, guest in self._guests.items() if guest.deadline < time.monotonic()]:
            self._turn_away(connection)
        return found

    def _let_in(self) -> None:
        if len(self._guests) == MOST_GUESTS:
            self._turn_away(next(iter(self._guests)))
        with contextlib.suppress(OSError):  # the guest has gone again
            connection, _ = self._listener.accept()
            connection.settimeout(0)
            guest = _Guest(secrets.token_hex(32), time.monotonic() + ANSWER_TIMEOUT_S)
            self._guests[connection] = guest
            self._selector.register(connection, selectors.EVENT_READ)
            connection.sendall(_line(Challenge(guest.drawn)))  # which an empty buffer takes at once

    def _heard(self, connection: socket.socket) -> Hello | None:
        """A guest's Hello once it is complete and proven; None until then, and for one that is turned away."""
        guest = self._guests[connection]
        try:
            said = connection.recv(MOST_BYTES)
            guest.said += said
            if said and b"\n" not in guest.said and len(guest.said) < MOST_BYTES:
                return None
            hello = msgspec.json.decode(guest.said, type=Hello)
            is_known = _is_proof(hello.proof, self._secret, "follower", guest.drawn, hello)
            proof = _proof(self._secret, "leader", guest.drawn, hello) if is_known else None
            connection.sendall(_line(Welcome(proof)))
        except (OSError, UnicodeError, *UNREADABLE):
            is_known = False
        if not is_known:
            self._turn_away(connection)
            return None
        self._selector.unregister(connection)
        del self._guests[connection]
        connection.settimeout(None)
        return hello

    def _turn_away(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._guests[connection]
        connection.close()


def join(address: tuple[str, int], secret: bytes, rank: int, number: int, come_s: float = COME_S) -> Channel:
    """A connection to the leader, who may not be there yet, or not hear one among many. number: as in Hello.

    Raises WorkerError where nobody is there within ``come_s``, NotOurs where somebody else is.
    """
    deadline = time.monotonic() + come_s
    while True:
        try:
            return _joined(address, secret, rank, number)
        except (OSError, EOFError) as error:
            if time.monotonic() > deadline:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                raise WorkerError(f"rank 0 is not at {address[0]} port {address[1]}: {reason}") from None
            time.sleep(RETRY_S)


def _joined(address: tuple[str, int], secret: bytes, rank: int, number: int) -> Channel:
    """Raises OSError and EOFError where it is worth another try, NotOurs."""
    connection = socket.create_connection(address, ANSWER_TIMEOUT_S)
    try:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        challenge = msgspec.json.decode(_read_line(connection, deadline), type=Challenge)
        hello = Hello(rank, number, secrets.token_hex(32), "")
        proof = _proof(secret, "follower", challenge.drawn, hello)
        connection.sendall(_line(msgspec.structs.replace(hello, proof=proof)))
        welcome = msgspec.json.decode(_read_line(connection, deadline), type=Welcome)
        if welcome.proof is None or not _is_proof(welcome.proof, secret, "leader", challenge.drawn, hello):
            raise NotOurs
        connection.settimeout(None)
        return Channel(connection)
    except (UnicodeError, *UNREADABLE):
        connection.close()
        raise NotOurs from None
    except BaseException:
        connection.close()
        raise


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    """A line and not a byte more: others read what follows. Raises OSError, TimeoutError among them, and EOFError."""
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(1e-3, deadline - time.monotonic()))
        byte = connection.recv(1)
        if not byte:
            raise EOFError("it closed the connection")
        if len(line) == MOST_BYTES or time.monotonic() > deadline:
            raise TimeoutError("it does not come to the point")
        line += byte
    return line


def _line(message: object) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def _proof(secret: bytes, speaker: str, challenge: str, hello: Hello) -> str:
    """HMAC-SHA256 by the secret, in hex, over the speaker's role, both random strings, rank and number."""
    words = [speaker, challenge, hello.drawn, hello.rank, hello.number]
    return hmac.digest(secret, msgspec.json.encode(words), "sha256").hex()


def _is_proof(proof: str, secret: bytes, speaker: str, challenge: str, hello: Hello) -> bool:
    return hmac.compare_digest(proof.encode(), _proof(secret, speaker, challenge, hello).encode())
