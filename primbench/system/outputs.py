"""Files that primbench writes for who names them: whole or not at all, and nothing else than what was named.

A regular file is replaced by one that was made beside it, by a name that nobody can guess: whoever reads it sees what
was there before or all that is there now. Devices and pipes are written to, never replaced. A link is not followed, as
whoever made it would choose what is written; /dev/stdout, /dev/stderr and /dev/fd/N are streams of this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from primbench.errors import OutputError
from primbench.system.files import read_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXISTING = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_NEW = _EXISTING | os.O_CREAT | os.O_EXCL
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


def unwritable(path: str | os.PathLike[str]) -> str | None:
    """Why nothing can be written there, in words; None where it can. Raises nothing."""
    if _stream(path) is not None:
        return None if os.access(path, os.W_OK) else "no such open stream that can be written"
    name = Path(path)
    if not os.path.isdir(name.parent):
        return f"there is no folder {name.parent}"
    try:
        there = name.lstat()
    except FileNotFoundError:
        return _denied(name.parent, os.W_OK | os.X_OK)
    except OSError as error:
        return error.strerror
    if stat.S_ISDIR(there.st_mode):
        return "is a folder"
    if stat.S_ISLNK(there.st_mode):
        return f"is a link to {os.readlink(name)}, and links are not followed: name the file itself"
    in_folder = _not_replaceable(name.parent, there) if _is_replaced(name, there) else None
    return _denied(name, os.W_OK) or in_folder


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a regular file has that name: no stream of this process, device or pipe, and no link, has one to lose."""
    if _stream(path) is not None:
        return False
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _not_replaceable(folder: Path, there: os.stat_result) -> str | None:
    """Why no other file can take the name of that one, as in /tmp that of another user's: inode(7), the sticky bit."""
    above = folder.stat()
    if above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, there.st_uid, above.st_uid):
        return "is another user's, and this folder lets nobody else replace it: name another file"
    return _denied(folder, os.W_OK | os.X_OK)


def _denied(path: Path, access: int) -> str | None:
    return None if os.access(path, access) else "no permission to write it"


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Raises OutputError, and then leaves a regular file as it was."""
    with _writing(path, grows=False) as file:
        file.write(content)


@contextlib.contextmanager
def growing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """An empty file that readers may follow from now on; flush() shows them what was written. Raises OutputError."""
    with _writing(path, grows=True) as file:
        yield file


def write_new(path: str | os.PathLike[str], content: bytes) -> None:
    """A file of all of the content where there is nothing yet. Raises OutputError, and then leaves none."""
    with _told(path), contextlib.ExitStack() as on_failure:
        with open(os.open(path, _NEW, 0o666), "wb") as file:
            on_failure.callback(_remove, path)
            file.write(content)
        on_failure.pop_all()


def note(path: Path, words: bytes, *, anew: bool = False, mode: int = 0o666) -> None:
    """Add to a small file by which processes find each other, or begin it. Raises OSError.

    It is closed each time, which makes NFS show it to other machines.
    """
    flags = os.O_CREAT | os.O_NONBLOCK | (os.O_TRUNC if anew else os.O_APPEND)
    with open(os.open(path, _EXISTING | flags, mode), "ab") as file:
        file.write(words)


@contextlib.contextmanager
def _writing(path: str | os.PathLike[str], *, grows: bool) -> Iterator[IO[bytes]]:
    """grows: the file has its name from the beginning, and keeps it; else once it is whole."""
    with _told(path):
        if reason := unwritable(path):
            raise OutputError(f"{os.fspath(path)}: {reason}")
        if (stream := _stream(path)) is not None:
            with open(os.dup(stream), "wb") as file:
                yield file
            return
        name = Path(path)
        folder = os.open(name.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            before = _status(folder, name.name)
            if before is None or _is_replaced(name, before):
                opened = _anew(folder, name.name, before, grows=grows)
            else:
                opened = _into(folder, name.name, before)
            with opened as file:
                yield file
        finally:
            os.close(folder)


@contextlib.contextmanager
def _anew(folder: int, name: str, before: os.stat_result | None, *, grows: bool) -> Iterator[IO[bytes]]:
    """A new file in the place of one of this user with what that allowed others, or of none."""
    made = f".primbench-{os.urandom(8).hex()}"
    with contextlib.ExitStack() as on_failure:
        with open(os.open(made, _NEW, 0o666, dir_fd=folder), "wb") as file:
            on_failure.callback(_remove, made, folder)
            if before is not None and before.st_uid == os.geteuid():
                os.fchmod(file.fileno(), before.st_mode & 0o777)
            if grows:
                os.replace(made, name, src_dir_fd=folder, dst_dir_fd=folder)
                on_failure.pop_all()
            yield file
        if not grows:
            os.replace(made, name, src_dir_fd=folder, dst_dir_fd=folder)
            on_failure.pop_all()


@contextlib.contextmanager
def _into(folder: int, name: str, before: os.stat_result) -> Iterator[IO[bytes]]:
    """The device or the pipe itself, or a file that something is mounted on. Of a pipe it waits for who reads."""
    with open(os.open(name, _EXISTING, dir_fd=folder), "wb") as file:
        opened = os.fstat(file.fileno())
        if not os.path.samestat(opened, before):
            raise OutputError(f"{name}: was replaced while it was opened")
        if stat.S_ISREG(opened.st_mode):
            os.ftruncate(file.fileno(), 0)
        yield file


def _is_replaced(path: Path, there: os.stat_result) -> bool:
    """Not where it is a mount of its own, as in a container: its name cannot be given to another file."""
    if not stat.S_ISREG(there.st_mode):
        return False
    whole = os.path.realpath(path)
    return all(mount.point != whole for mount in read_mounts(Path("/")))


def _remove(name: str | os.PathLike[str], folder: int | None = None) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _stream(path: str | os.PathLike[str]) -> int | None:
    """The descriptor that is meant, where the name is that of a stream of this process."""
    name = os.fspath(path)
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]{1,6})", name)
    return int(numbered[1]) if numbered else _STREAMS.get(name)


@contextlib.contextmanager
def _told(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: {error.strerror}") from None
