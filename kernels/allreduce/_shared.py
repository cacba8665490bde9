"""Memory that the ranks of one host share, and a barrier in it."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from primbench.distributed.group import Group
    from primbench.problem import Array

SPINS = 200  # some 50 us; then a rank sleeps, as it must where ranks have to share a CPU
_LINE_BYTES = 64  # a cache line; sem_t has 32 bytes
_C = ctypes.CDLL(None)
_NAME = "primbench"
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Barrier:
    """Waits for all ranks, in log2(ranks) rounds: dissemination (Hensgen, Finkel & Manber 1988, Int. J. Parallel
    Programming 17(1)).

    In round k a rank tells the one 2^k after it and hears from the one 2^k before. Told by semaphores of POSIX,
    which also order the memory accesses on both sides (POSIX.1-2017, section 4.12).
    """

    def __init__(self, address: int, rank: int, size: int) -> None:
        def semaphore(of: int, number: int) -> ctypes.c_void_p:
            return ctypes.c_void_p(address + _LINE_BYTES * (of * rounds(size) + number))

        self._rounds = [
            (semaphore((rank + (1 << number)) % size, number), semaphore(rank, number))
            for number in range(rounds(size))
        ]

    def initialise(self) -> None:
        """This rank's semaphores; before any other rank comes here."""
        for _, mine in self._rounds:
            _C.sem_init(mine, ctypes.c_int(1), ctypes.c_uint(0))

    def __call__(self) -> None:
        for theirs, mine in self._rounds:
            _C.sem_post(theirs)
            for _ in range(SPINS):
                if not _C.sem_trywait(mine):
                    break
            else:
                while _C.sem_wait(mine):  # a signal came between
                    pass


def rounds(size: int) -> int:
    return (size - 1).bit_length()


@dataclass(frozen=True)
class Shared:
    """Memory that all ranks see. Arrays start on pages of their own."""

    barrier: Barrier
    """Where ranks wait for each other."""
    buffers: list[Array]
    """int8, one a rank."""
    summed: Array
    """int8, as long as each of the buffers."""


def share(group: Group, size_bytes: int) -> Shared:
    """Memory of its own for each rank and for their sums, mapped by all of them, gone with the last mapping.

    Raises UnsupportedCase on a rank that cannot open it.
    """
    if not group.on_one_host():
        raise UnsupportedCase("NumPy's ranks share memory, and these are on several hosts: ask for backend=torch")
    header_bytes = _whole_pages(_LINE_BYTES * group.size * max(1, rounds(group.size)))
    part_bytes = _whole_pages(size_bytes)
    file = _open_file(group, header_bytes + (group.size + 1) * part_bytes)
    try:
        pages = np.frombuffer(mmap.mmap(file, 0), np.int8)
        barrier = Barrier(pages.ctypes.data, group.rank, group.size)
        barrier.initialise()
        group.agree()
    finally:
        os.close(file)
    parts = [pages[start : start + size_bytes] for start in range(header_bytes, pages.size, part_bytes)]
    return Shared(barrier, parts[:-1], parts[-1])


def _open_file(group: Group, length_bytes: int) -> int:
    """A file in memory, made by rank 0 and opened by the others through /proc: no name that could be left behind."""
    file = _make_file(length_bytes) if group.rank == 0 else -1
    process, number = group.agree([os.getpid(), file])
    return file if group.rank == 0 else open_made(process, number, length_bytes)


def _make_file(length_bytes: int) -> int:
    file = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(file, length_bytes)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    return file


def open_made(process: object, number: object, length_bytes: int) -> int:
    """Rank 0's file, by its process and descriptor there; whatever else these may lead to is not opened for writing.

    Raises UnsupportedCase for what is no such file, and for what cannot be opened.
    """
    where = f"/proc/{process}/fd/{number}"
    if type(process) is not int or type(number) is not int:
        raise UnsupportedCase(f"the memory of rank 0 cannot be shared: {where!r} are not two numbers")
    try:
        named = os.open(where, os.O_PATH | os.O_CLOEXEC)  # which opens nothing yet
        try:
            file = _open_named(named, length_bytes)
        finally:
            os.close(named)
    except OSError as error:
        raise UnsupportedCase(f"the memory of rank 0 cannot be shared: {where}: {error.strerror}") from None
    if file is None:
        raise UnsupportedCase(f"the memory of rank 0 cannot be shared: {where} is no memory that a rank has made")
    return file


def _open_named(named: int, length_bytes: int) -> int | None:
    """The file, opened; None unless it is in memory, this user's, of our name, that length, and sealed to keep it."""
    mine, found = f"/proc/self/fd/{named}", os.fstat(named)
    is_made = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_size == length_bytes
    if not is_made or os.readlink(mine) != f"/memfd:{_NAME} (deleted)":
        return None
    file = os.open(mine, os.O_RDWR | os.O_CLOEXEC)
    try:
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) == _SEALS:
            return file
    except OSError:  # of a folder's file by that name
        pass
    os.close(file)
    return None


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
