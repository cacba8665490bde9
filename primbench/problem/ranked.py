"""Calls in which several ranks take part, one process each, and every element is exact: what they bring and receive."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from primbench.dtypes import itemsize_bytes, numpy_dtype
from primbench.errors import InvalidField, VerificationError
from primbench.problem.definition import Problem, Reference
from primbench.problem.fields import option, size
from primbench.random import POOL_SIZE, generator_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from primbench.dtypes import Array
    from primbench.measurement import Measurement

# Integers up to here are exact, and so is every sum on the way to one of them. int8 and int32 leave out the
# smallest value, which marks an element that was never written.
EXACT = {
    "float64": 2**53,
    "float32": 2**24,
    "float16": 2**11,
    "bfloat16": 2**8,
    "int32": 2**31 - 1,
    "int8": 127,
}
FULL_CHECK_ELEMENTS = 2**22


class SummedPart(NamedTuple):
    """A stretch of what a rank receives: the sum of what ``ranks`` bring, ``length`` elements from ``start`` on."""

    ranks: Sequence[int]
    start: int
    length: int


@dataclass(frozen=True)
class Ranked(Problem):
    """What primitives of several ranks have in common. Each brings its own integers, and receives stretches of those.

    A call is one operation in which all ranks take part; its time is that of the slowest rank.
    """

    work = "collective"
    margin = 0.02
    set_up_s = (0.3, 1.2)

    bytes: int = size("size of the buffer of each rank, of the larger one where there are two", unit="B")
    ranks: int = size("processes that take part, each with a GPU or CPU of its own", default=2)
    dtype: str = option("float32", "type of the elements", tuple(EXACT))

    @abstractmethod
    def stretches(self, rank: int) -> Sequence[SummedPart]:
        """What a rank receives, one stretch behind the other."""

    @abstractmethod
    def busbw_factor(self) -> float:
        """busbw / algbw, as in doc/PERFORMANCE.md of nccl-tests."""

    @property
    def count(self) -> int:
        """Elements of the buffer of each rank, of the larger one where there are two."""
        return self.bytes // itemsize_bytes(self.dtype)

    @property
    def sent_count(self) -> int:
        """Elements that a rank brings."""
        return self.count

    def settle(self) -> None:
        if self.bytes % itemsize_bytes(self.dtype):
            raise InvalidField(
                f"{self.primitive} bytes={self.bytes}: {self.dtype} takes {itemsize_bytes(self.dtype)} each"
            )
        if self._terms > EXACT[self.dtype]:
            raise InvalidField(
                f"{self.primitive} ranks={self.ranks}: {self.dtype} sums are exact up to {EXACT[self.dtype]}"
            )

    def bytes_moved(self) -> None:
        """What moves, and where, is the algorithm's choice: see busbw in figures()."""

    def memory_bytes(self) -> int:
        return 2 * self.bytes

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """The columns of nccl-tests, by the formulas of its doc/PERFORMANCE.md.

        algbw = bytes / time; busbw = algbw times busbw_factor(), which is comparable between numbers of ranks; #wrong
        elements, before and after timing: a case with any has failed.
        """
        algbw = measured.main.per_second(self.bytes) if measured.main else None
        busbw = None if algbw is None else algbw * self.busbw_factor()
        wrong = 0 if measured.verified else None
        return {"algbw_bytes_per_s": algbw, "busbw_bytes_per_s": busbw, "#wrong": wrong}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Random integers of as many bits as leave all sums exact; beyond POOL_SIZE elements they repeat."""
        import numpy as np

        return (np.resize(self._block(rng).astype(numpy_dtype(self.dtype)), self.sent_count),)

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """What one of the ranks brings."""
        return self.inputs(generator_of(rank, seed))

    def checked_of(self, rank: int, seed: int) -> None:
        """The timed inputs are, before and after."""

    def told_of(self, output: Array, rank: int, seed: int) -> list[float]:
        """Elements of a rank's output: how many are wrong, of how many."""
        return [self.count_wrong(output, rank, seed), output.size]

    def error_of(self, told: list[list[float]], seed: int) -> float:
        """0. Raises VerificationError where an element is wrong."""
        wrong, of = map(sum, zip(*told, strict=True))
        if wrong:
            raise VerificationError(f"wrong result: {wrong} of {of} elements on {self.ranks} ranks")
        return 0.0

    def count_wrong(self, output: Array, rank: int, seed: int) -> int:
        """How many elements of a rank's output are not those that stretches() names, of inputs_of() the ranks."""
        import numpy as np

        wrong, end = 0, 0
        for stretch in self.stretches(rank):
            blocks = (self._block(generator_of(source, seed)) for source in stretch.ranks)
            block = np.roll(sum(blocks, start=np.zeros((), np.int64)), -stretch.start).astype(output.dtype)
            wrong += _count_unequal(output[end : end + stretch.length], block)
            end += stretch.length
        return wrong + abs(output.size - end)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """The reference for one rank alone: its input. What several ranks receive is checked by count_wrong()."""
        import numpy as np

        index = np.s_[:: max(1, self.count // FULL_CHECK_ELEMENTS)]
        expected = inputs[0][index].astype(np.float64)
        return Reference(index, expected, np.ones_like(expected))

    def tolerance(self) -> float:
        return 0.0

    @property
    def _terms(self) -> int:
        """Of the sum that is an element."""
        return len(self.stretches(0)[0].ranks)

    def _block(self, rng: np.random.Generator) -> Array:
        """int64, of which the elements that a rank brings are repeats."""
        limit = EXACT[self.dtype] // self._terms
        return rng.integers(-limit, limit + 1, min(self.sent_count, POOL_SIZE))


def _count_unequal(found: Array, block: Array) -> int:
    """How many elements differ from the block's, over and over."""
    import numpy as np

    starts = range(0, found.size, block.size)
    pairs = ((found[start : start + block.size], block[: found.size - start]) for start in starts)
    return sum(int(np.count_nonzero(each != right)) for each, right in pairs)
