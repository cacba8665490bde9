"""Files that are read for who names them, or finds them in a folder that others write to: none is waited for."""

from __future__ import annotations

import os
import select
import stat
from typing import IO, TYPE_CHECKING

from primbench.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

_READS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITER_WITHIN_MS = 1000
_STREAMS = ("/dev/", "/proc/")  # of this process: who gave it a pipe writes to that


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """For reading from its beginning. Raises OSError; FileError for a pipe by name that nobody writes to."""
    descriptor = os.open(path, _READS)
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and not os.fspath(path).startswith(_STREAMS):
            _check_written(descriptor, path)
        os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def unlike_a_file(path: Path) -> str | None:
    """What it is in words, where it is there and no regular file; links are followed."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
    return None if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")


def content(path: Path) -> bytes:
    """All that a small file of other processes holds by now; of a pipe what lies in it. Raises OSError."""
    with open(os.open(path, _READS), "rb") as file:
        return file.read() or b""


def size_bytes(path: Path) -> int:
    """Of a file, which is opened for it: NFS then asks anew. Raises OSError."""
    with open(os.open(path, _READS), "rb") as file:
        return os.fstat(file.fileno()).st_size


def _check_written(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Raises FileError where no other process has it open for writing, nor opens it within a moment."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(_WRITER_WITHIN_MS):
        return
    try:
        taken = os.read(descriptor, 1)
    except BlockingIOError:  # somebody has it open, who has written nothing yet
        return
    reason = "what is written to it came too late: try again" if taken else "a pipe that nobody writes to"
    raise FileError(f"{os.fspath(path)}: {reason}: name a file, or - for what is piped in")
