"""How threads of a GPU share rows of which each is read once, and held in registers until it is written."""

from __future__ import annotations

import math
from typing import NamedTuple

from primbench.dtypes import itemsize_bytes
from primbench.errors import UnsupportedCase

STORED = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}  # as CUDA sources name them
LOAD_BYTES = 16
WARP, MOST_THREADS, BLOCK = 32, 1024, 256  # threads
WANTED, MOST_HELD, MOST_HELD_BYTES = 2, 32, 128  # loads that a thread holds, for which there are registers


class Shape(NamedTuple):
    """pack elements a load, held loads a thread, threads a row, rows a block."""

    pack: int
    held: int
    threads: int
    rows: int

    @property
    def options(self) -> tuple[str, ...]:
        """Of the compiler, for a source that takes them."""
        return f"-DPACK={self.pack}", f"-DHELD={self.held}", f"-DTHREADS={self.threads}"

    def launch(self, rows: int) -> tuple[tuple[int], tuple[int, int]]:
        """Grid and block."""
        return (-(-rows // self.rows),), (self.threads, self.rows)


def shape_of(elements: int, dtype: str) -> Shape:
    """For rows of so many. Raises UnsupportedCase where a row is too long to be held."""
    pack = math.gcd(elements, LOAD_BYTES // itemsize_bytes(dtype))
    loads, threads = elements // pack, WARP
    while threads < MOST_THREADS and threads * WANTED < loads:
        threads *= 2
    held, most = -(-loads // threads), min(MOST_HELD, MOST_HELD_BYTES // (pack * itemsize_bytes(dtype)))
    if held > most:
        raise UnsupportedCase(
            f"a row of {elements} elements of {dtype} is longer than the {MOST_THREADS * most * pack} that registers "
            "hold, from which it is read and written once: ask for backend=torch"
        )
    return Shape(pack, held, threads, max(1, BLOCK // threads))
