"""What of files the kernel holds in memory, and having it drop that."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

COLD = 0.01  # share of pages that may be there all the same
_UNMAPPED = 65_534  # as whom a user namespace shows owners that it does not know: user_namespaces(7)
_libc = ctypes.CDLL(None, use_errno=True)


def write_back(folder: str) -> None:
    """Have all that was written to the file system of a folder on its disk. Only then can pages be dropped."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        if _libc.syncfs(opened):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), folder)
    finally:
        os.close(opened)


def drop(paths: Iterable[str]) -> None:
    """Ask the kernel to drop the pages of files, which it does of those that are clean and mapped by nobody."""
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(opened)


def held_share(paths: Iterable[str]) -> float:
    """The share of the files' pages that are in memory, by mincore(2). Raises OSError.

    Of a file that this process neither owns nor may write to, Linux says that all of it is there, so that nobody learns
    what others read (mm/mincore.c, can_do_mincore): that is a PermissionError.
    """
    held = pages = 0
    for path in paths:
        found = _held(path)
        held, pages = held + sum(found), pages + len(found)
    return held / pages


def _held(path: str) -> bytes:
    """1 for each page that is in memory, 0 for each other one."""
    import numpy as np

    if not _is_told(path):
        raise PermissionError(errno.EACCES, "only who owns a file, or may write to it, is told", path)
    opened = os.open(path, os.O_RDONLY)
    try:
        mapped = mmap.mmap(opened, 0, prot=mmap.PROT_READ)
    finally:
        os.close(opened)
    array = np.frombuffer(mapped, np.uint8)
    found = np.zeros(-(-array.size // mmap.PAGESIZE), np.uint8)
    address, size_bytes = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.size)
    if _libc.mincore(address, size_bytes, ctypes.c_void_p(found.ctypes.data)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return (found & 1).tobytes()


def _is_told(path: str) -> bool:
    owner, user = os.stat(path).st_uid, os.geteuid()
    return owner == user or (user == 0 and owner != _UNMAPPED) or os.access(path, os.W_OK, effective_ids=True)
