"""All-reduce over several processes: the problem, and NumPy's over shared memory. Others: allreduce_BACKEND.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.dtypes import itemsize_bytes, numpy_dtype
from primbench.errors import InvalidField, UnsupportedCase
from primbench.problem import Problem, Reference, Step, kernel, option, size
from primbench.random import POOL_SIZE

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
        return self.inputs(_generator(rank, seed))

    def count_wrong(self, output: Array, seed: int) -> int:
        """How many elements of a rank's output are not the exact sum of inputs_of() all ranks."""
        import numpy as np

        blocks = (self._block(_generator(rank, seed)) for rank in range(self.ranks))
        expected = sum(blocks, start=np.zeros((), np.int64)).astype(output.dtype)
        starts = range(0, output.size, expected.size)
        compared = ((output[start : start + expected.size], expected[: output.size - start]) for start in starts)
        return sum(int(np.count_nonzero(found != right)) for found, right in compared)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Of one rank alone, whose sum is its input. The sums of several are checked by count_wrong()."""
        import numpy as np

        index = np.s_[:: max(1, self.count // FULL_CHECK_ELEMENTS)]
        expected = inputs[0][index].astype(np.float64)
        return Reference(index, expected, np.ones_like(expected))

    def tolerance(self) -> float:
        return 0.0

    def _block(self, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
        limit = EXACT[self.dtype] // self.ranks
        return rng.integers(-limit, limit + 1, min(self.count, POOL_SIZE))


def _generator(rank: int, seed: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng((seed, rank))


@dataclass(frozen=True)
class InPlace:
    """A buffer that a call reduces in place, as the output of a step.

    poison: fills it with the inputs again, so that an element which the next call leaves out is no sum.
    """

    poison: Callable[[], object]
    get: Callable[[], Array]


def check_group(problem: Allreduce, group: Group) -> None:
    """Raise UnsupportedCase unless as many processes take part as the problem says."""
    if group.size != problem.ranks:
        raise UnsupportedCase(
            f"{problem.ranks} ranks are {problem.ranks} processes: primbench.run and the command line start them"
        )


@kernel("allreduce", "numpy")
def numpy_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """Each rank sums a slice of all buffers into shared memory, then copies all slices (reduce-scatter, all-gather)."""
    import numpy as np

    from primbench.kernels._allreduce_shared import share

    check_group(problem, group)
    shared = share(group, problem.bytes)
    buffers = [part.view(x.dtype) for part in shared.buffers]
    summed, mine = shared.summed.view(x.dtype), _slice(problem.count, group)
    first, *others = (buffer[mine] for buffer in buffers)
    partial, meet = summed[mine], shared.barrier
    buffer = buffers[group.rank]
    buffer[:] = x
    out = buffer if problem.in_place else backend.empty(x.shape, problem.dtype)

    def step() -> Any:
        meet()  # all inputs are there, and nobody copies the sums of the call before
        np.copyto(partial, first)
        for other in others:
            np.add(partial, other, out=partial)
        meet()
        np.copyto(out, summed)
        return out

    if not problem.in_place:
        return step
    output = InPlace(lambda: np.copyto(buffer, x), lambda: buffer)

    def step_in_place() -> InPlace:
        with np.errstate(over="ignore", invalid="ignore"):  # sums of sums grow from call to call
            step()
        return output

    return step_in_place


def _slice(count: int, group: Group) -> slice:
    """The elements that a rank sums: equal shares, the first ones larger by one where they cannot be equal."""
    share, left = divmod(count, group.size)
    start = group.rank * share + min(group.rank, left)
    return slice(start, start + share + (group.rank < left))
