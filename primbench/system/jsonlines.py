"""Files of JSON Lines, as they are or compressed by xz: whole lines, and why there are none."""

from __future__ import annotations

import io
import shlex
from typing import IO, TYPE_CHECKING

import msgspec

from primbench.errors import FileError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from _typeshed import WriteableBuffer

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for what is no JSON, or not of the kind that is due."""

MAX_LINE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20  # a small file of xz can hold more than there is memory
XZ = b"\xfd7zXZ\0"  # The .xz File Format, 2.1.1.1


def whole_lines(path: Path) -> Iterator[bytes]:
    """Each with its end. Raises FileError where it cannot be read, or the last line was cut off."""
    try:
        with opened(path) as file:
            number = 0
            while text := file.readline(MAX_LINE_BYTES):
                number += 1
                if not text.endswith(b"\n"):
                    raise FileError(f"{path}:{number}: {_no_end(path, number, text)}")
                yield text
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


def opened(path: Path) -> IO[bytes]:
    """Raises OSError; FileError, also when it is read, where it is compressed and cannot be."""
    if not is_compressed(path):
        return path.open("rb")
    try:
        import lzma
    except ImportError:
        raise FileError(f"{path}: this Python was built without lzma: {decompress(path)}") from None
    return io.BufferedReader(_Unpacked(path, lzma))


class _Unpacked(io.RawIOBase):
    """What a file of xz holds, as it is asked for."""

    def __init__(self, path: Path, lzma: ModuleType) -> None:
        """lzma: the module. Raises OSError."""
        self._path = path
        self._file = lzma.open(path)
        self._damaged = (lzma.LZMAError, EOFError, MemoryError)
        self._left_bytes = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Raises FileError where there is less of it than there should be, or too much."""
        with memoryview(buffer) as room:
            try:
                piece = self._file.read1(room.nbytes)
            except self._damaged as error:
                raise FileError(f"{self._path}: not a whole file of xz: {error or type(error).__name__}") from None
            room[: len(piece)] = piece
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            most, way_out = MAX_UNPACKED_BYTES >> 20, decompress(self._path)
            raise FileError(
                f"{self._path}: holds more than {most} MiB: if it is what you expect, {way_out}, and name that"
            )
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def decompress(path: str | os.PathLike[str]) -> str:
    """The command that does it."""
    return f"xz --decompress {shlex.quote(str(path))}"


def is_compressed(path: Path) -> bool:
    """Whether a file is xz, by its first bytes; False for a pipe, which is not read. Raises OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(XZ)) == XZ


def _no_end(path: Path, number: int, text: bytes) -> str:
    if len(text) == MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES >> 20} MiB: not a line of a results file"
    if number == 1:
        return "cut off in the middle of its first line: nothing of it can be kept"
    return (
        "cut off in the middle of the line; to keep the whole lines before it: "
        f"head -n {number - 1} {shlex.quote(str(path))} > whole.jsonl"
    )
