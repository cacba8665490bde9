"""Chase: how long a load from memory takes that has to wait for the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.problem import Problem, Reference, option, size

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

ANYWHERE = -1
LAST_NODE = 1023
WORD_BYTES = 8
STRIDE_BYTES = 128  # two cache lines, as x86 fetches them in pairs; one of POWER


@dataclass(frozen=True)
class Chase(Problem, name="chase"):
    """Follow a chain through host memory, one load a place of 128 bytes, by one thread of a CPU or a GPU.

    A call goes once through the whole buffer; load is the time of one load. On a CPU it is the latency of memory where
    the buffer is several times as large as the last-level cache, and includes the misses of the TLB: the buffer asks
    for huge pages, and may not get them. A GPU reaches over its bus for every load: 2 MiB in rising order are what
    nvbandwidth's host_device_latency_sm goes through. A CPU foresees a rising order.
    """

    bytes: int = size("of the buffer", unit="B")
    node: int = option(ANYWHERE, "memory node of the buffer; -1 is any", least=ANYWHERE, most=LAST_NODE)
    order: str = option("random", "of the places", ("random", "rising"))

    example_sizes = ((4096,), (131_072,), (256,))
    work = "copy"
    margin = 0.02

    def settle(self) -> None:
        if self.bytes % STRIDE_BYTES or self.bytes < 2 * STRIDE_BYTES:
            raise InvalidField(f"chase bytes={self.bytes}: a multiple of {STRIDE_BYTES}, at least {2 * STRIDE_BYTES}")

    @property
    def places(self) -> int:
        return self.bytes // STRIDE_BYTES

    @property
    def loads(self) -> int:
        """Loads that a call makes one after another, from the first place of the chain to the last."""
        return self.places - 1

    def bytes_moved(self) -> None:
        """A rate of them would be no bandwidth: one load is under way at a time."""

    def memory_bytes(self) -> int:
        return self.bytes

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        return {"load_s": measured.main.median_s / self.loads if measured.main else None}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """int64[places]: after each place the next one, all of them in a single ring that begins at 0."""
        import numpy as np

        others = rng.permutation(self.loads) if self.order == "random" else np.arange(self.loads)
        ring = np.concatenate([[0], 1 + others])
        following = np.empty(self.places, np.int64)
        following[ring] = np.roll(ring, -1)
        return (following,)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """The end of the chain is the place that the beginning follows; any other was reached too early."""
        import numpy as np

        end = np.flatnonzero(inputs[0] == 0).astype(np.float64)
        return Reference(index=..., expected=end, scale=np.ones_like(end))

    def tolerance(self) -> float:
        return 0.0
