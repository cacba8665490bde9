"""A digest of what a case computed, made where that is: two outputs that are alike to the last bit have the same one.

The bytes of an output, in the order of C, are taken as words w of 32 bits, the last one filled up with zeros, in 16
parts of as many words. Of each part it is the sum of w_i k_i modulo 2^64, with keys k_i = key(c) key(4096 + r) of its
place i = 4096 r + c in the part: multilinear hashing (Carter and Wegman 1979, Universal classes of hash functions;
Lemire and Kaser 2014, Strongly universal string hashing is fast), with keys that are odd.

A change d of one word, 0 < |d| < 2^32, always shows: k_i has an inverse, so that d k_i is no multiple of 2^64. Changes
d and e of two words hide each other where d k_i + e k_j is one; of random keys this is so of no more than one pair in
2^32, which is where both changes are of a sign bit alone, and of one in 2^63 where one is odd. key(n) are the numbers
of SplitMix64, n after n from 0 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, OOPSLA),
with their last bit set.

Parts say where outputs differ: a bit that flipped is in one of them, another order of summation nearly everywhere.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

from primbench.gpu import vendor_of
from primbench.measurement.outputs import COLUMNS, WORD_BYTES, part_words
from primbench.timing.verify import is_host_array, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.backends import Backend, GpuBackend
    from primbench.problem import Array

_SMALL_BYTES = 2**16  # of which copying and keeping some costs less than summing them up again
_ROWS = 256  # a million words, for fewer of which a thread does not pay


def digest_of(backend: Backend, output: Any) -> str:
    """Of what a step returned, in whichever of the forms of an output; of a GPU's array made there, if that goes."""
    is_there = backend.device.is_gpu and not hasattr(output, "poison") and not is_host_array(output)
    made_there = of_device(backend, output) if is_there else None
    return of_host(on_host(backend, output)) if made_there is None else made_there


def of_device(backend: Backend, array: Any) -> str | None:
    """The digest of an array of a GPU's backend, made there; None of one that does not lie there as C has it."""
    extent = cast("GpuBackend", backend).extent(array)
    found = vendor_of(backend.device).sums(*extent, cast("GpuBackend", backend).stream_handle) if extent else None
    return None if found is None else _text(array, found)


def of_host(array: Array) -> str:
    """The same of an array on the host."""
    import numpy as np

    if array.nbytes <= _SMALL_BYTES:
        return _of_small(array.dtype, array.shape, array.tobytes())
    return _text(array, _sums(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))


@functools.lru_cache(maxsize=16)
def _of_small(dtype: Any, shape: tuple[int, ...], data: bytes) -> str:
    """Kept, as calls that are looked at one after the other mostly give the same."""
    import numpy as np

    array = np.frombuffer(data, dtype).reshape(shape)
    return _text(array, _sums(array.reshape(-1).view(np.uint8)))


def unlike_parts(one: str, other: str) -> tuple[int, int] | None:
    """How many parts of two outputs differ, and of how many; None where they are of another type or shape."""
    (kind, *sums), (other_kind, *others) = one.split(), other.split()
    return None if kind != other_kind else (sum(map(str.__ne__, sums, others)), len(sums))


def _text(array: Any, sums: Sequence[int]) -> str:
    """Type and shape, and the sums of parts that there are."""
    kind = f"{str(array.dtype).removeprefix('torch.')}[{'x'.join(map(str, array.shape))}]"
    return " ".join([kind, *(f"{each:016x}" for each in sums)])


def _sums(flat: Array) -> list[int]:
    """Of bytes; of each part that has any. A part is a row of words, or several of COLUMNS."""
    import numpy as np

    length = part_words(flat.size)
    wide = min(length, COLUMNS)
    rows, rest = divmod(flat.size, WORD_BYTES * wide)
    of_rows = np.zeros(rows + bool(rest), np.uint64)
    _add_rows(flat[: flat.size - rest].view("<u4").reshape(rows, wide), of_rows[:rows])
    if rest:
        last = np.zeros(-(-rest // WORD_BYTES), "<u4")
        last.view(np.uint8)[:rest] = flat[flat.size - rest :]
        of_rows[rows] = np.einsum("c,c->", last, _columns()[: last.size])
    in_part = np.arange(of_rows.size) % (length // wide)
    keyed = of_rows * _keys(COLUMNS, length // wide)[in_part]
    return [int(each) for each in np.add.reduceat(keyed, np.flatnonzero(in_part == 0))] if flat.size else []


def _add_rows(words: Array, sums: Array) -> None:
    """Of each row the sum of its words times the keys of their columns."""
    import numpy as np

    keys = _columns()[: words.shape[1]]

    def add(start: int) -> None:
        rows = slice(start, start + _ROWS)
        np.einsum("rc,c->r", words[rows], keys, out=sums[rows])

    if len(words) <= _ROWS:
        add(0)
        return
    from concurrent.futures import ThreadPoolExecutor  # takes 20 ms, which every worker would pay

    with ThreadPoolExecutor() as threads:
        list(threads.map(add, range(0, len(words), _ROWS)))


@functools.cache
def _columns() -> Array:
    return _keys(0, COLUMNS)


def _keys(first: int, count: int) -> Array:
    """key(first) and those after it."""
    import numpy as np

    found = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys: Array = (found ^ (found >> np.uint64(31))) | np.uint64(1)
    return keys
