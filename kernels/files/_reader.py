"""One reader: its share of the blocks, the files it has open for them, and how it goes through them."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from primbench.errors import PrimbenchError
from primbench.kernels.files._content import stretch, sum_of
from primbench.kernels.files._uring import Ring
from primbench.kernels.files.problem import UNDER_WAY

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence
    from io import FileIO

    from primbench.kernels.files._content import Block
    from primbench.kernels.files.problem import Files


@dataclass(frozen=True)
class Share:
    """What a reader needs to know: its blocks, and the contents where it writes them. It may be sent to a process."""

    problem: Files
    paths: Sequence[str]
    blocks: Sequence[Block]
    contents: bytes | None


class Reader(Protocol):
    """A call goes once through the share; returns the sum of each block in their order, [] where none are wanted."""

    def __call__(self, *, sums: bool) -> list[int]: ...


def open_share(share: Share, opened: contextlib.ExitStack) -> Reader:
    """opened: closes the files. Raises OSError, and UnsupportedCase where the file system knows no such access."""
    if share.problem.what == "small":
        return _OneByOne(share)
    files = _open(share, opened)
    if share.problem.what == "mmap":
        return _Mapped(share, files)
    if share.problem.what == "write":
        return _Written(share, files)
    if share.problem.access == "io_uring":
        return _InRing(share, files, Ring(opened))
    return _Read(share, files)


def _flags(problem: Files) -> int:
    return (os.O_RDWR if problem.what == "write" else os.O_RDONLY) | (os.O_DIRECT if problem.access == "direct" else 0)


def _open(share: Share, opened: contextlib.ExitStack) -> dict[int, int]:
    """File -> descriptor, of those that the share has blocks of."""
    found = {}
    for file in sorted({block.file for block in share.blocks}):
        found[file] = os.open(share.paths[file], _flags(share.problem))
        opened.callback(os.close, found[file])
    return found


def _memory(problem: Files, blocks: int = 1) -> memoryview:
    """So many blocks, each beginning with a page, as O_DIRECT may ask."""
    return memoryview(mmap.mmap(-1, blocks * padded(problem)))


def padded(problem: Files) -> int:
    return -(-problem.block_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


class _Read:
    """Block by block, into the same memory."""

    def __init__(self, share: Share, files: dict[int, int]) -> None:
        self._share, self._files = share, files
        self._memory = _memory(share.problem)

    def __call__(self, *, sums: bool) -> list[int]:
        files, memory, found = self._files, self._memory, []
        for block in self._share.blocks:
            into = memory[: block.size_bytes]
            fill(files[block.file], into, block.offset)
            if sums:
                found.append(sum_of(into, touched=False))
        return found


def fill(file: int, into: memoryview, offset: int) -> None:
    """Read so much from there. Raises PrimbenchError where the file ends before."""
    got = os.preadv(file, [into], offset)
    while got < len(into):  # a file system may give less at a time
        more = os.preadv(file, [into[got:]], offset + got)
        if not more:
            raise PrimbenchError(f"a file ends at {offset + got} bytes that is to have {offset + len(into)}")
        got += more


class _OneByOne:
    """What a data set of one file an item does, by the calls that it makes: what slows down read(2) slows this down."""

    def __init__(self, share: Share) -> None:
        self._share, self._flags = share, _flags(share.problem)
        self._memory = _memory(share.problem)

    def _opened(self, path: str, flags: int) -> int:
        return os.open(path, flags | self._flags)

    def __call__(self, *, sums: bool) -> list[int]:
        paths, found = self._share.paths, []
        for block in self._share.blocks:
            path = paths[block.file]
            if (size := os.stat(path).st_size) != block.size_bytes:
                raise PrimbenchError(f"a file has {size} bytes that is to have {block.size_bytes}")
            into = self._memory[:size]
            with open(path, "rb", buffering=0, opener=self._opened) as file:
                _read_all(file, into)
            if sums:
                found.append(sum_of(into, touched=False))
        return found


def _read_all(file: FileIO, into: memoryview) -> None:
    """Raises PrimbenchError where the file ends before."""
    got = file.readinto(into)
    while got < len(into):  # a file system may give less at a time
        more = file.readinto(into[got:])
        if not more:
            raise PrimbenchError(f"a file ends at {got} bytes that is to have {len(into)}")
        got += more


class _Mapped:
    """Each file mapped anew, one byte of each of its pages touched."""

    def __init__(self, share: Share, files: dict[int, int]) -> None:
        self._problem = share.problem
        self._blocks = [(files[file], [*each]) for file, each in itertools.groupby(share.blocks, lambda one: one.file)]

    def __call__(self, *, sums: bool) -> list[int]:
        found = []
        for file, blocks in self._blocks:
            with mmap.mmap(file, 0, prot=mmap.PROT_READ) as pages, memoryview(pages) as view:
                for block in blocks:
                    with view[block.offset : block.offset + block.size_bytes] as part:
                        found.append(sum_of(part, touched=True))
        return found if sums else []


class _Written:
    """Block by block from the contents, then fsync of every file."""

    def __init__(self, share: Share, files: dict[int, int]) -> None:
        assert share.contents is not None
        held = mmap.mmap(-1, len(share.contents))
        held[:] = share.contents
        parts = (stretch(memoryview(held), block) for block in share.blocks)
        self._share, self._files = share, files
        self._writes = [(files[block.file], [part], block) for part, block in zip(parts, share.blocks, strict=True)]

    def __call__(self, *, sums: bool) -> list[int]:
        for file, part, block in self._writes:
            if os.pwritev(file, part, block.offset) != block.size_bytes:
                raise PrimbenchError(f"a file takes fewer than {block.size_bytes} bytes at a time")
        for file in self._files.values():
            os.fsync(file)
        return self._sums() if sums else []

    def _sums(self) -> list[int]:
        """Of what is in the files now."""
        memory, found = _memory(self._share.problem), []
        for block in self._share.blocks:
            into = memory[: block.size_bytes]
            fill(self._files[block.file], into, block.offset)
            found.append(sum_of(into, touched=False))
        return found


class _InRing:
    """As many blocks as a ring takes under way at a time, each into memory of its own."""

    def __init__(self, share: Share, files: dict[int, int], ring: Ring) -> None:
        self._share, self._files, self._ring = share, files, ring
        slots = min(UNDER_WAY, len(share.blocks))
        memory, each = _memory(share.problem, slots), padded(share.problem)
        self._memory = [memory[slot * each : (slot + 1) * each] for slot in range(slots)]
        self._addresses = [ctypes.addressof(ctypes.c_char.from_buffer(part)) for part in self._memory]

    def __call__(self, *, sums: bool) -> list[int]:
        waiting, free = iter(enumerate(self._share.blocks)), list(range(len(self._memory)))
        under_way: dict[int, tuple[int, Block]] = {}
        found = [0] * len(self._share.blocks)
        while True:
            for slot, (place, block) in zip(free, waiting, strict=False):
                under_way[slot] = place, block
                file, address = self._files[block.file], self._addresses[slot]
                self._ring.ask(slot, file, block.offset, address, block.size_bytes)
            if not under_way:
                return found if sums else []
            free = []
            for slot, got in self._ring.answers():
                place, block = under_way.pop(slot)
                free.append(slot)
                into = self._whole(slot, block, got)
                if sums:
                    found[place] = sum_of(into, touched=False)

    def _whole(self, slot: int, block: Block, got: int) -> memoryview:
        """The block, of which the ring read so much. Raises OSError where it answered with an error."""
        if got < 0:
            raise OSError(-got, os.strerror(-got))
        into = self._memory[slot][: block.size_bytes]
        if got < len(into):
            fill(self._files[block.file], into[got:], block.offset + got)
        return into
