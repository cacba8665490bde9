"""Loader: what torch's DataLoader costs an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.problem import Exact, Problem, option, size

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

MOST_WORKERS = 256
BITS = 4  # of entropy a byte in what is decoded: what is left of a photograph once neighbours are taken off


@dataclass(frozen=True)
class Loader(Problem, name="loader"):
    """Take batches from torch's DataLoader, whose items are in memory and may have to be decoded.

    A call takes all of them once, and item is the time for one; the data set itself hands it out in microseconds.
    Without workers the calling thread does everything; with them, processes make batches and hand them over in
    /dev/shm. They live from one call to the next, and each call finds them waiting.

    decode=png has every item inflated, and neighbours added up, as PNG's filter Sub asks for.
    """

    items: int = size("of the data set, all taken by a call")
    item_bytes: int = size("of an item, decoded", unit="B", default=150_528)
    batch: int = option(32, "items of a batch", least=1)
    workers: int = option(0, "processes that load beside the one that takes batches", least=0, most=MOST_WORKERS)
    decode: str = option("none", "what is done to an item", ("none", "png"))
    pin_memory: bool = option(False, "copy batches to pinned memory in a thread, which needs a GPU")

    example_sizes = ((40, 1000), (7, 333))
    work = "data loading"
    margin = 0.05
    set_up_s = (2.0, 2.0)
    on_gpus = False

    def settle(self) -> None:
        if self.batch > self.items:
            raise InvalidField(f"loader batch={self.batch}: at most items={self.items}")

    def bytes_moved(self) -> int:
        """What the items have, decoded."""
        return self.items * self.item_bytes

    def memory_bytes(self) -> int:
        """The items, twice while they are made, and the batches that are under way: two a worker."""
        return 2 * self.bytes_moved() + (1 + 2 * self.workers) * self.batch * self.item_bytes

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        main = measured.main
        return {
            "item_s": main.median_s / self.items if main else None,
            "items_per_second": main.per_second(self.items) if main else None,
        }

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """int8[items, item_bytes]: differences of neighbours, of few bits, so that they are smaller when deflated."""
        import numpy as np

        half = 2 ** (BITS - 1)
        return (rng.integers(-half, half, (self.items, self.item_bytes), np.int8),)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int64[items, 2]: of each item that batches have, in their order, the sum and one that knows places."""
        from primbench.kernels.loader._items import decoded, sums

        return Exact(sums(decoded(inputs[0]) if self.decode == "png" else inputs[0]))

    def tolerance(self) -> float:
        """Bytes have no rounding errors."""
        return 0.0
