"""Copies, one way or both, within the host, a GPU, or between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.problem import Bound, Exact, Problem, option, size
from primbench.random import random_array

if TYPE_CHECKING:
    import numpy as np

    from primbench.devices import Device
    from primbench.measurement import Measurement
    from primbench.problem import Array

# Direction -> the memory there may be on its host side, or that both sides are; the first is the default.
MEMORY = {
    "h2d": ("pinned", "framework", "pageable", "write_combined"),
    "d2h": ("pinned", "framework", "pageable"),
    "bidirectional": ("pinned", "framework"),
    "d2d": ("device",),
    "p2p": ("device",),
    "h2h": ("pageable",),
}
ENGINES = ("ce", "sm")  # as nvbandwidth calls them
PLACEABLE = ("pinned", "pageable")  # allocated here, page by page; the others are an allocator's
FROM_HOST = ("h2d", "bidirectional", "h2h")
TO_HOST = ("d2h", "bidirectional", "h2h")
ANYWHERE = -1
NONE = -1
LAST_NODE = 1023
LATENCY_BYTES = 65_536  # on an H200 these take 3.0 us from the GPU, and one byte 1.7 us
OF_LATENCY = 0.05


@dataclass(frozen=True)
class Memcpy(Problem, name="memcpy"):
    """Copy bytes: host to device and back, within a GPU, to another GPU, within the host.

    h2d and d2h are host to device and device to host, bidirectional is both at once, d2d within one GPU, p2p from this
    GPU to ``peer``, h2h within the host. auto is h2d on a GPU and h2h on a CPU.

    pinned memory is allocated page by page and registered with the driver; framework is the backend's own pinned
    allocator; pageable is ordinary memory; write_combined is pinned, and fit for writing only. auto is pinned wherever
    it can be.

    Of bidirectional by the copy engines, h2d and d2h are the rates of one way while as many copies go the other, as
    nvbandwidth has them.

    Rates count each byte once for h2d, d2h and p2p; once for either way of bidirectional, so that the rate is that of
    each way; twice for d2d and h2h, which read and write the same memory. With ``gpus``, all of them together.
    """

    bytes: int = size("of each copy", unit="B")
    direction: str = option("auto", "what is copied where", ("auto", *MEMORY))
    memory: str = option(
        "auto", "kind of host memory", ("auto", *dict.fromkeys(kind for kinds in MEMORY.values() for kind in kinds))
    )
    peer: int = option(NONE, "number of the GPU that p2p copies to; -1 is none", least=NONE)
    gpus: int = option(1, "so many GPUs at once, each with its own copy, from the device's number on", least=1)
    src_node: int = option(
        ANYWHERE, "memory node to copy from, on the host; -1 leaves it to --numa-node", least=ANYWHERE, most=LAST_NODE
    )
    dst_node: int = option(
        ANYWHERE, "memory node to copy to, on the host; -1 leaves it to --numa-node", least=ANYWHERE, most=LAST_NODE
    )

    engine: str = option("ce", "what copies: the GPU's copy engines, or its multiprocessors by a kernel", ENGINES)

    work = "copy"
    margin = 0.02
    set_up_s = (0.1, 0.7)
    check_again = True
    has_tails = True
    example_sizes = ((4096,), (131_073,), (1,))  # the driver treats pageable copies up to 64 KiB differently

    def settle(self) -> None:
        """Fill in the memory, and refuse what this direction has no place for."""
        if self.direction == "auto":
            return
        kinds = MEMORY[self.direction]
        if self.memory == "auto":
            object.__setattr__(self, "memory", kinds[0])
        alone = self.direction in ("p2p", "h2h") or self.memory == "pageable"
        of_node = "a node is for pinned or pageable host memory on that side"
        for name, fits, allowed in (
            ("memory", self.memory in kinds, f"only {', '.join(kinds)}; ask for that, or for another direction"),
            (
                "peer",
                (self.peer != NONE) == (self.direction == "p2p"),
                "p2p needs the number of another GPU, from 0, and nothing else takes one",
            ),
            (
                "gpus",
                self.gpus == 1 or not alone,
                "several copy at once in h2d, d2h, d2d, bidirectional, and not in pageable memory",
            ),
            (
                "engine",
                self._suits_engine(),
                "multiprocessors copy pinned memory and their GPU's own, of one GPU at a time",
            ),
            ("src_node", self.src_node == ANYWHERE or self._is_placeable(FROM_HOST), of_node),
            ("dst_node", self.dst_node == ANYWHERE or self._is_placeable(TO_HOST), of_node),
        ):
            if not fits:
                found = f"memcpy direction={self.direction!r} {name}={getattr(self, name)!r}"
                raise InvalidField(f"{found}: {allowed}")

    def _suits_engine(self) -> bool:
        return self.engine == "ce" or (self.gpus == 1 and self.memory != "pageable")

    def _is_placeable(self, directions: tuple[str, ...]) -> bool:
        """Whether the memory on that side, which those directions have on the host, can be put on a node."""
        return self.direction in directions and self.memory in PLACEABLE

    def on(self, device: Device) -> Memcpy:
        if self.direction != "auto":
            return self
        return replace(self, direction="h2d" if device.is_gpu else "h2h")

    @property
    def has_each_way(self) -> bool:
        """Whether either way is timed by itself while both go: of engines; multiprocessors share out what both take."""
        return self.direction == "bidirectional" and self.gpus == 1 and self.engine == "ce"

    @property
    def copies(self) -> int:
        return self.gpus * (2 if self.direction == "bidirectional" else 1)

    def library_calls(self) -> int:
        return 1

    def bytes_moved(self) -> int:
        """Bytes counted as nvbandwidth and STREAM do (McCalpin 1995, "Counting Bytes and FLOPS"); see the class."""
        return self.bytes * self.gpus * (2 if self.direction in ("d2d", "h2h") else 1)

    def bound(self) -> Bound | None:
        """The path; several GPUs at once have one each, and may share some of it."""
        return Bound("bytes_per_s", self.direction) if self.gpus == 1 else None

    def memory_bytes(self) -> int:
        """On one GPU, without what only the host holds."""
        return self.bytes * (2 if self.direction in ("d2d", "h2h", "bidirectional") else 1)

    def own_margin(self) -> float:
        """That of launches, where a GPU's copy is mostly latency."""
        return OF_LATENCY if self.bytes <= LATENCY_BYTES and self.direction != "h2h" else self.margin

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        ways = {way: measured.others.get(f"{way}_s") for way in ("h2d", "d2h")}
        return {
            "wall_p99_s": measured.wall_s.tail_s(0.99) if measured.wall_s else None,
            **{f"{way}_bytes_per_s": taken.per_second(self.bytes) if taken else None for way, taken in ways.items()},
        }

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """int8[bytes], the same for every copy; -128 is left for what is never written."""
        return (random_array(rng, (self.bytes,), "int8"),)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """The copies one behind the other, each of them all of the input."""
        return Exact(inputs[0])

    def tolerance(self) -> float:
        """Bytes have no rounding errors."""
        return 0.0
