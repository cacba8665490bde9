"""Messages between processes: JSON lines over a stream socket, no pickles: a peer can send values, not code."""

from __future__ import annotations

import socket
from typing import TypeVar

import msgspec

MAX_LINE_BYTES = 16 * 2**20

_Kind = TypeVar("_Kind")


class Channel:
    """JSON lines over a stream socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._unread = b""
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def has_line(self) -> bool:
        """Whether a message has been read from the socket already, which poll(2) cannot know."""
        return b"\n" in self._unread

    def send(self, message: object) -> None:
        self.connection.sendall(msgspec.json.encode(message) + b"\n")

    def receive(self, kind: type[_Kind]) -> _Kind:
        """Raises EOFError where the other end is gone, msgspec.MsgspecError where it says something else."""
        while not self.has_line:
            chunk = self.connection.recv(1 << 16)
            if not chunk or len(self._unread) > MAX_LINE_BYTES:
                raise EOFError("the other end closed its connection")
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return msgspec.json.decode(line, type=kind)

    def close(self) -> None:
        self.connection.close()
