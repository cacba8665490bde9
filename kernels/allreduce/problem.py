"""All-reduce over several processes: sizes, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes, numpy_dtype
from primbench.errors import InvalidField, VerificationError
from primbench.problem import Problem, Reference, option, size
from primbench.random import POOL_SIZE, generator_of

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

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


@dataclass(frozen=True)
class Allreduce(Problem, name="allreduce"):
    """y[i] = x_0[i] + x_1[i] + ... on every rank: the sum over ranks, one process each.

    A call is one all-reduce in which all ranks take part; its time is that of the slowest rank. In place is what
    torch.distributed knows, and what training does with gradients.
    """

    example_sizes = ((4096, 1), (1008, 1), (8, 1))
    work = "collective"
    margin = 0.02
    cpu_backend = "numpy"  # shared memory; gloo goes through sockets and takes 40 times as long for 1 KiB

    bytes: int = size("size of the buffer of each rank", unit="B")
    ranks: int = size("processes that take part, each with a GPU or CPU of its own", default=2)
    dtype: str = option("float32", "type of the elements", tuple(EXACT))
    op: str = option("sum", "reduction", ("sum",))
    in_place: bool = option(True, "the sum overwrites the input")

    def settle(self) -> None:
        if self.bytes % itemsize_bytes(self.dtype):
            raise InvalidField(f"allreduce bytes={self.bytes}: {self.dtype} takes {itemsize_bytes(self.dtype)} each")
        if self.ranks > EXACT[self.dtype]:
            raise InvalidField(f"allreduce ranks={self.ranks}: {self.dtype} sums are exact up to {EXACT[self.dtype]}")

    @property
    def count(self) -> int:
        """Elements of the buffer of each rank."""
        return self.bytes // itemsize_bytes(self.dtype)

    def bytes_moved(self) -> None:
        """What moves, and where, is the algorithm's choice: see busbw in figures()."""

    def memory_bytes(self) -> int:
        return 2 * self.bytes

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """The columns of nccl-tests, by the formulas of its doc/PERFORMANCE.md.

        algbw = bytes / time; busbw = algbw 2(n-1)/n, which is comparable between numbers of ranks; #wrong elements,
        before and after timing: a case with any has failed.
        """
        algbw = self.bytes / measured.main.median_s if measured.main else None
        busbw = None if algbw is None else algbw * 2 * (self.ranks - 1) / self.ranks
        wrong = 0 if measured.verified else None
        return {"algbw_bytes_per_s": algbw, "busbw_bytes_per_s": busbw, "#wrong": wrong}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Random integers of as many bits as leave all sums exact; beyond a million elements they repeat."""
        import numpy as np

        return (np.resize(self._block(rng).astype(numpy_dtype(self.dtype)), self.count),)

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """What one of the ranks brings."""
        return self.inputs(generator_of(rank, seed))

    def checked_of(self, rank: int, seed: int) -> None:
        """The timed inputs are, before and after."""

    def told_of(self, output: Array, seed: int) -> list[float]:
        """Elements of a rank's output: how many are wrong, of how many."""
        return [self.count_wrong(output, seed), output.size]

    def error_of(self, told: list[list[float]], seed: int) -> float:
        """0. Raises VerificationError where an element is wrong."""
        wrong, of = map(sum, zip(*told, strict=True))
        if wrong:
            raise VerificationError(f"wrong result: {wrong} of {of} elements on {self.ranks} ranks")
        return 0.0

    def count_wrong(self, output: Array, seed: int) -> int:
        """How many elements of a rank's output are not the exact sum of inputs_of() all ranks."""
        import numpy as np

        blocks = (self._block(generator_of(rank, seed)) for rank in range(self.ranks))
        expected = sum(blocks, start=np.zeros((), np.int64)).astype(output.dtype)
        starts = range(0, output.size, expected.size)
        compared = ((output[start : start + expected.size], expected[: output.size - start]) for start in starts)
        return sum(int(np.count_nonzero(found != right)) for found, right in compared)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """The reference for one rank alone: its input. Sums of several ranks are checked by count_wrong()."""
        import numpy as np

        index = np.s_[:: max(1, self.count // FULL_CHECK_ELEMENTS)]
        expected = inputs[0][index].astype(np.float64)
        return Reference(index, expected, np.ones_like(expected))

    def tolerance(self) -> float:
        return 0.0

    def _block(self, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
        limit = EXACT[self.dtype] // self.ranks
        return rng.integers(-limit, limit + 1, min(self.count, POOL_SIZE))
