"""What the files hold, in which blocks a call goes through them, and the sums by which these are known again."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from primbench.problem import Array

PAGE_BYTES = 4096  # the distance of the bytes that a memory map is touched at, whatever the size of a page here
PERIOD_BYTES = 1021 * PAGE_BYTES  # after which contents repeat: a prime, so that few blocks are alike


class Block(NamedTuple):
    """A stretch of a file that is read at once."""

    number: int
    """Its own among all blocks in the order of files and places, from 0."""
    file: int
    """Number of the file, from 0."""
    offset: int
    """Bytes of the file before it."""
    size_bytes: int
    """Its length."""
    place: int
    """Of its first byte among those of all files."""


def contents(rng: np.random.Generator, block_bytes: int) -> Array:
    """Random bytes, and behind them the first ones again, so that each block is one stretch."""
    import numpy as np

    period = rng.integers(-128, 128, PERIOD_BYTES, np.int8)
    return np.resize(period, PERIOD_BYTES + block_bytes)


def stretch(held: memoryview, block: Block) -> memoryview:
    """The bytes of a block. held: contents()."""
    start = block.place % PERIOD_BYTES
    return held[start : start + block.size_bytes]


def blocks(files: int, file_bytes: int, block_bytes: int, *, shuffled: bool) -> list[Block]:
    """Files one after the other, from the beginning to the end; or shuffled, always in the same order."""
    places = [(file, at) for file in range(files) for at in range(0, file_bytes, block_bytes)]
    found = [
        Block(number, file, at, min(block_bytes, file_bytes - at), file * file_bytes + at)
        for number, (file, at) in enumerate(places)
    ]
    if shuffled:
        random.Random(0).shuffle(found)
    return found


def sum_of(part: memoryview, *, touched: bool) -> int:
    """Of every byte of a block; touched: of those alone that a memory map is touched at."""
    if not touched:
        return zlib.crc32(part)
    import numpy as np

    return int(np.frombuffer(part, np.uint8)[::PAGE_BYTES].sum())


def sums(held: Array, found: Sequence[Block], *, touched: bool) -> Array:
    """int64[blocks], by number."""
    import numpy as np

    view, result = held.data.cast("B"), np.empty(len(found), np.int64)
    for block in found:
        result[block.number] = sum_of(stretch(view, block), touched=touched)
    return result
