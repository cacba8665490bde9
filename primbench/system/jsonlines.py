"""Files of JSON Lines, as they are or compressed by xz or gzip: whole lines, and why there are none."""

from __future__ import annotations

import importlib
import io
import shlex
import zlib
from typing import IO, TYPE_CHECKING

import msgspec

from primbench.errors import FileError
from primbench.system import inputs
from primbench.system.said import LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from _typeshed import WriteableBuffer

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for what is no JSON, or not of the kind that is due."""

MAX_UNPACKED_BYTES = 256 * 2**20  # a small compressed file can hold more than there is memory
# By a file's first bytes: The .xz File Format, 2.1.1.1, and RFC 1952, 2.3.1. The program, and Python's module.
FORMATS = {b"\xfd7zXZ\0": ("xz", "lzma"), b"\x1f\x8b\x08": ("gzip", "gzip")}
SUFFIXES = (".jsonl", ".jsonl.xz", ".jsonl.gz")
"""Of files of these, where others may lie beside them, or be named instead."""
MARK = b"\xef\xbb\xbf"  # of byte order, which editors put before UTF-8


def whole_lines(path: Path) -> Iterator[bytes]:
    """Each with its end. Raises FileError where it cannot be read, or the last line was cut off."""
    try:
        with opened(path) as file:
            number = 0
            while text := file.readline(LINE_BYTES):
                number += 1
                text = text.removeprefix(MARK) if number == 1 else text
                if not text.endswith(b"\n"):
                    raise FileError(f"{path}:{number}: {_no_end(path, number, text)}")
                yield text
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


class _Line(msgspec.Struct):
    kind: str = ""


def first_kind(path: Path) -> str:
    """What the first line says that it is; "" where it says nothing. Raises FileError where it cannot be read."""
    try:
        return msgspec.json.decode(next(whole_lines(path), b""), type=_Line).kind
    except UNREADABLE:
        return ""


def opened(path: Path) -> IO[bytes]:
    """Raises as inputs.opened(); FileError, also when it is read, where it is compressed and cannot be."""
    found = _format(path)
    if found is None:
        return inputs.opened(path)
    program, module = found
    try:
        return io.BufferedReader(_Unpacked(path, program, importlib.import_module(module)))
    except ImportError:
        raise FileError(f"{path}: this Python was built without {module}: {decompress(path)}") from None


class _Unpacked(io.RawIOBase):
    """What a compressed file holds, as it is asked for."""

    def __init__(self, path: Path, program: str, module: ModuleType) -> None:
        """program: that made it. module: of Python, that reads it. Raises OSError."""
        self._path, self._program = path, program
        self._file = module.open(path)
        own = [getattr(module, name) for name in ("LZMAError", "BadGzipFile") if hasattr(module, name)]
        self._damaged = (*own, zlib.error, EOFError, MemoryError)
        self._left_bytes = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Raises FileError where there is less of it than there should be, or too much."""
        with memoryview(buffer) as room:
            try:
                piece = self._file.read1(room.nbytes)
            except self._damaged as error:
                words = f"not a whole file of {self._program}: {error or type(error).__name__}"
                raise FileError(f"{self._path}: {words}") from None
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


def decompress(path: Path) -> str:
    """The command that does it."""
    program, _ = _format(path) or ("xz", "lzma")
    return f"{program} --decompress {shlex.quote(str(path))}"


def is_compressed(path: Path) -> bool:
    """Whether a file is xz or gzip, by its first bytes; False for a pipe, which is not read. Raises OSError."""
    return _format(path) is not None


def _format(path: Path) -> tuple[str, str] | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        first = file.read(max(map(len, FORMATS)))
    return next((found for mark, found in FORMATS.items() if first.startswith(mark)), None)


def _no_end(path: Path, number: int, text: bytes) -> str:
    if len(text) == LINE_BYTES:
        return f"longer than {LINE_BYTES >> 20} MiB: not a line of a results file"
    if number > 1:
        keep = f"head -n {number - 1} {shlex.quote(str(path))} > whole.jsonl"
        return f"cut off in the middle of the line; to keep the whole lines before it: {keep}"
    if text.startswith(b"{"):
        return "cut off in the middle of its first line: nothing of it can be kept"
    return "no file of primbench's: it does not begin with a JSON object"
