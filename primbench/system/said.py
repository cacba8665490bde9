"""What other programs and machines say, and how much of it is taken: more is of no use, and could take all memory.

Of a line as much as a line of a results file may have; of standard error the beginning and the end; of a reason as much
as a person reads.
"""

from __future__ import annotations

import collections
import os

import msgspec

LINE_BYTES = 64 * 2**20
"""Of a line, in a file or of an answer."""
END_BYTES = 64 * 2**10
"""Of standard error, at its beginning and at its end."""
FULL_BYTES = 8 * 2**20
"""Of standard error, before what is between these is thrown away."""
REASON_CHARACTERS = 1000
"""What frameworks say fits."""
LEFT_OUT = "\n[...]\n"


class Lines:
    """Those of a stream whose pieces come one after the other."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._begun_bytes = 0
        self._whole: collections.deque[bytes] = collections.deque()

    def __bool__(self) -> bool:
        """Whether there is a whole one."""
        return bool(self._whole)

    @property
    def begun(self) -> bytes:
        """The first piece of the one that is not whole yet."""
        return self._begun[0] if self._begun else b""

    def add(self, piece: bytes) -> None:
        """Raises msgspec.DecodeError for a line of more than LINE_BYTES, which is none of primbench's."""
        *ended, rest = piece.split(b"\n")
        for each in ended:
            self._whole.append(b"".join([*self._begun, each]))
            self._begun, self._begun_bytes = [], 0
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
        if self._begun_bytes > LINE_BYTES:
            raise msgspec.DecodeError(f"a line of more than {LINE_BYTES >> 20} MiB")

    def take(self) -> bytes:
        """The next whole one, without its end. Raises IndexError."""
        return self._whole.popleft()


def in_short(reason: str) -> str:
    """A reason as it is told: of a long one the beginning and the end."""
    half = REASON_CHARACTERS // 2
    return reason if len(reason) <= REASON_CHARACTERS else f"{reason[:half]} [...] {reason[-half:]}"


def written(file: int) -> str:
    """What a file holds, of a large one the beginning and the end. Raises OSError."""
    size_bytes = os.fstat(file).st_size
    first = os.pread(file, 2 * END_BYTES if size_bytes <= 2 * END_BYTES else END_BYTES, 0)
    last = os.pread(file, END_BYTES, size_bytes - END_BYTES) if size_bytes > 2 * END_BYTES else b""
    return LEFT_OUT.join(each.decode(errors="replace") for each in (first, last) if each)


def shorten(file: int) -> None:
    """Throw away the middle of a large file to which others append, and which therefore goes on growing at its end."""
    size_bytes = os.fstat(file).st_size
    if size_bytes > FULL_BYTES:
        last = os.pread(file, END_BYTES, size_bytes - END_BYTES)
        os.ftruncate(file, END_BYTES)
        os.write(file, LEFT_OUT.encode() + last)
