"""Messages between processes: JSON lines over a stream socket, no pickles: a peer can send values, not code."""

from __future__ import annotations

import functools
import ipaddress
import operator
import socket
from typing import TYPE_CHECKING, TypeVar

import msgspec

from primbench.system.said import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

_Kind = TypeVar("_Kind")

# Of a host that is gone without a word, tcp(7) asks after 10 s of silence, three times: 25 s. So long it waits for an
# answer to what was sent, too.
_NETWORK = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
)


class Channel:
    """JSON lines over a stream socket. Whatever way the other end is gone, that is an EOFError."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._heard = Lines()
        if connection.family != socket.AF_UNIX:
            for level, option, value in _NETWORK:
                connection.setsockopt(level, option, value)

    @property
    def has_line(self) -> bool:
        """Whether a message has been read from the socket already, which poll(2) cannot know."""
        return bool(self._heard)

    def send(self, message: object) -> None:
        """Raises EOFError where the other end is known to be gone."""
        try:
            self.connection.sendall(msgspec.json.encode(message) + b"\n")
        except OSError as error:
            raise _gone(error) from None

    def receive(self, *kinds: type[_Kind]) -> _Kind:
        """One of these. Raises EOFError where the other end is gone, one of UNREADABLE where it says something else."""
        while not self.has_line:
            try:
                chunk = self.connection.recv(1 << 16)
            except OSError as error:
                raise _gone(error) from None
            if not chunk:
                raise EOFError("the other end closed its connection")
            self._heard.add(chunk)
        found: _Kind = msgspec.json.decode(self._heard.take(), type=functools.reduce(operator.or_, kinds))
        return found

    def close(self) -> None:
        self.connection.close()


def _gone(error: OSError) -> EOFError:
    return EOFError(f"the other end is gone: {error.strerror}")


def listen(address: str, port: int, backlog: int | None = None) -> socket.socket:
    """A listener for those who reach this host by the address. Raises OSError.

    On the loopback where that is named; by any other name at all addresses: behind NAT the name's address is none of
    this host's, and Debian gives a host's own name to its loopback, which no other host reaches.
    """
    family, _, _, _, named = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    if is_loopback(address):
        return socket.create_server((str(named[0]), port), family=family, backlog=backlog)
    return _listen_everywhere(port, backlog)


def _listen_everywhere(port: int, backlog: int | None = None) -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=both)


def listen_beside(connections: Iterable[socket.socket]) -> socket.socket:
    """A listener at a free port of the address that the other ends have come to, at all where they came to several.

    Those who did not come by a network are on this host. Raises OSError.
    """
    came_to = {_own_address(each) for each in connections}
    if len(came_to) != 1:
        return _listen_everywhere(0)
    (address,) = came_to
    return listen_at(address)


def listen_at(address: str) -> socket.socket:
    """At a free port of one of this host's own addresses. Raises OSError."""
    return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


def _own_address(connection: socket.socket) -> str:
    """An IPv4 address as such, where the listener was one for both. A zone stays in it, as in fe80::1%eth0."""
    if connection.family == socket.AF_UNIX:
        return "127.0.0.1"
    name, _ = socket.getnameinfo(connection.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return name.removeprefix("::ffff:") if "." in name else name


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
