"""Files of JSON Lines, as they are or compressed by xz: whole lines, and why there are none."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from primbench.errors import FileError

MAX_LINE_BYTES = 64 * 2**20
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
    """Raises OSError; FileError where it is compressed and cannot be read."""
    if not is_compressed(path):
        return path.open("rb")
    try:
        import lzma
    except ImportError:
        raise FileError(f"{path}: this Python was built without lzma: {decompress(path)}") from None
    try:
        return io.BytesIO(lzma.open(path).read())
    except (lzma.LZMAError, EOFError) as error:
        raise FileError(f"{path}: not a whole file of xz: {error}") from None


def decompress(path: str | os.PathLike[str]) -> str:
    """The command that does it."""
    return f"xz --decompress {shlex.quote(str(path))}"


def is_compressed(path: Path) -> bool:
    """By xz, as its first bytes say. Raises OSError. Of what is no file, such as a pipe, nothing is read."""
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
