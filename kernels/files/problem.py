"""Files: what it takes to read data and models from a folder, and to write them there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.kernels.files._content import PERIOD_BYTES, Block, blocks, contents, sums
from primbench.problem import Exact, Problem, option, size

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

AS_MANY_AS_SUIT = 0
# What is done -> how many files there are unless asked otherwise; the first is the default.
FILES = {"read": 1, "small": 100, "shards": 8, "mmap": 1, "write": 1}
ACCESS = {"buffered": tuple(FILES), "direct": ("read", "small", "shards", "write"), "io_uring": ("read", "shards")}
TMPDIR = "TMPDIR"
CALLS_OF_FILE, CALLS_OF_READER = 8, 16  # such as stat, open, fstat, read, close; futex, read, write
UNDER_WAY = 32  # blocks that io_uring is asked for at a time
MOST_FILES = 1_000_000
MOST_READERS = 256
MOST_BLOCKS = 2**22
LARGEST_BLOCK = 2**30  # Linux moves at most 2 GiB less a page in a call
SECTOR_BYTES = 4096  # what O_DIRECT asks of sizes and offsets, at most


@dataclass(frozen=True)
class Files(Problem, name="files"):
    """Read files in the ways that data and models are read, many small ones among them, or write and sync them.

    read goes through files from their beginnings to their ends, shards in shuffled blocks through all of them, mmap
    maps a file anew and touches every page of it, small does stat, open, read and close of one file after the other,
    in shuffled order, write overwrites files and ends with fsync. A call does all of it once, and file is the time for
    one file.

    The files are made in a folder of their own, in what the variable TMPDIR names unless ``path`` is another one, which
    has to be there in every arm, and removed at the end. Their bytes are random, and what a call reads or writes is
    checked against them.

    A warm page cache has what there is room for; cold means that the kernel dropped the files' pages before each call,
    which is looked up: names and attributes stay known to it, and so may the whole file to a disk or a hypervisor.
    direct goes past the page cache, io_uring asks for up to 32 blocks at a time.
    """

    bytes: int = size("of each file", unit="B")
    block_bytes: int = size("read or written at once", unit="B", default=2**20)
    what: str = option("read", "what is done", tuple(FILES))
    files: int = option(
        AS_MANY_AS_SUIT, "how many; 0 is 1, of small 100, of shards 8", least=AS_MANY_AS_SUIT, most=MOST_FILES
    )
    access: str = option("buffered", "how blocks are asked for", tuple(ACCESS))
    page_cache: str = option("warm", "whether the kernel has the files in memory before a call", ("warm", "cold"))
    readers: int = option(1, "so many take part, each with a share of the blocks", least=1, most=MOST_READERS)
    reader: str = option("thread", "what each of them is", ("thread", "process"))
    path: str = option(TMPDIR, "folder to make the files in")

    work = "data loading"
    margin = 0.05
    on_gpus = False
    check_again = True
    example_sizes = ((8192, 4096), (5000, 700))

    def system_calls(self) -> tuple[str, ...]:
        return ("io_uring_enter",) if self.access == "io_uring" else ()

    def folder(self) -> str | None:
        return None if self.path == TMPDIR else self.path

    def settle(self) -> None:
        """Fill in how many files and what a block is, and refuse what does not go together."""
        self._fill_in("files", self.files or FILES[self.what])
        self._fill_in("block_bytes", self.bytes if self.what == "small" else min(self.block_bytes, self.bytes))
        if self.path != TMPDIR:
            self._fill_in("path", os.path.abspath(os.path.expanduser(self.path)))
        blocks, accessible = self.count, ACCESS[self.access]
        for name, fits, allowed in (
            ("access", self.what in accessible, f"only {', '.join(accessible)}"),
            ("block_bytes", self.block_bytes <= LARGEST_BLOCK, f"at most {LARGEST_BLOCK}"),
            ("block_bytes", blocks <= MOST_BLOCKS, f"{blocks} blocks, {MOST_BLOCKS} are the most"),
            ("bytes", self._fits_access(self.bytes), f"a multiple of {SECTOR_BYTES}"),
            ("block_bytes", self._fits_access(self.block_bytes), f"a multiple of {SECTOR_BYTES}"),
            ("page_cache", self.what != "write" or self.page_cache == "warm", "nothing is read that could be cold"),
            ("readers", self.readers <= blocks, f"there are {blocks} blocks to be shared"),
            ("path", self.path.isprintable(), "a name that can be shown"),
        ):
            if not fits:
                found = {each: getattr(self, each) for each in dict.fromkeys(("what", "access", name))}
                words = " ".join(f"{each}={value!r}" for each, value in found.items())
                raise InvalidField(f"files {words}: {allowed}")

    def _fits_access(self, size_bytes: int) -> bool:
        return self.access != "direct" or size_bytes % SECTOR_BYTES == 0

    def _fill_in(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def count(self) -> int:
        """Blocks of all files."""
        return self.files * -(-self.bytes // self.block_bytes)

    @property
    def is_shuffled(self) -> bool:
        return self.what in ("small", "shards")

    @property
    def is_mapped(self) -> bool:
        return self.what == "mmap"

    def blocks(self) -> list[Block]:
        """What a call reads or writes, in the order in which it does."""
        return blocks(self.files, self.bytes, self.block_bytes, shuffled=self.is_shuffled)

    def system_call_count(self) -> int:
        """Of each file and of each block; none of the pages of a mapped file, and some for each reader to begin."""
        of_blocks = 0 if self.is_mapped else 2 * self.count
        return of_blocks + CALLS_OF_FILE * self.files + CALLS_OF_READER * self.readers

    def opened_files(self) -> int:
        """Each reader opens all those that it has blocks of."""
        return min(self.files * self.readers, self.count)

    def bytes_moved(self) -> int:
        """All bytes of all files, each once."""
        return self.files * self.bytes

    def memory_bytes(self) -> int:
        """Without the page cache, which the kernel takes back where it needs memory: contents and buffers."""
        each = UNDER_WAY if self.access == "io_uring" else 1
        return PERIOD_BYTES + (1 + each * self.readers) * self.block_bytes

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        return {"file_s": measured.main.median_s / self.files if measured.main else None}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """int8[PERIOD_BYTES + block_bytes] that all files are made of, so that a block is one stretch of it."""
        return (contents(rng, self.block_bytes),)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int64[blocks]: a sum of each block, in the order of their places in the files."""
        return Exact(sums(inputs[0], self.blocks(), touched=self.is_mapped))

    def tolerance(self) -> float:
        """Bytes have no rounding errors."""
        return 0.0
