"""How a GPU's blocks of threads share a product: the sizes that are compiled into a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from primbench.dtypes import itemsize_bytes

VECTOR_BYTES = 16  # widest load of shared memory


@dataclass(frozen=True)
class Tile:
    """A block of threads computes block_m x block_n of C, in steps of block_k; a thread thread_m x thread_n of it.

    The copy to shared memory wants the threads to be a multiple of all three; the steps over block_k, a power of two,
    are written out.
    max_registers (None: the compiler's choice) lets the intended number of blocks share a multiprocessor.
    """

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int
    max_registers: int | None = None

    def __post_init__(self) -> None:
        for side in (self.block_m, self.block_n, self.block_k):
            if self.threads % side or self.block_k & (self.block_k - 1):
                raise ValueError(
                    f"tile {self}: {self.threads} threads must be a multiple of {side}, block_k a power of two"
                )

    @property
    def threads(self) -> int:
        return (self.block_m // self.thread_m) * (self.block_n // self.thread_n)

    def blocks(self, m: int, n: int) -> int:
        return -(-m // self.block_m) * -(-n // self.block_n)

    def divides(self, m: int, n: int, k: int) -> bool:
        return not (m % self.block_m or n % self.block_n or k % self.block_k)

    def __str__(self) -> str:
        return f"{self.block_m}x{self.block_n}x{self.block_k}, {self.thread_m}x{self.thread_n} a thread"


@dataclass(frozen=True)
class Variant:
    """What is compiled into a kernel."""

    tile: Tile
    dtype: str
    accumulate: str
    out_dtype: str
    trans_a: bool
    trans_b: bool
    alpha: float
    beta: float
    whole: bool
    """Whether the tile divides m, n and k, so that nothing lies out of bounds."""

    @property
    def in_pairs(self) -> bool:
        """Whether A and B are read two elements at a time, as float64: where all is float32 and lies within bounds."""
        return self.whole and self.dtype == self.accumulate == "float32"

    @property
    def group(self) -> int:
        """Neighbouring elements that a thread owns, and reads with one load; its groups lie a block's span apart."""
        return VECTOR_BYTES // itemsize_bytes(self.accumulate)
