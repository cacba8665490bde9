"""What there is to know and to do of GPUs: what timing asks of each, and a folder for each vendor that answers."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from primbench.devices import CUDA

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from primbench.devices import Device
    from primbench.measurement.over_time import UsageReader
    from primbench.measurement.readings import GpuReading

VENDORS = {CUDA: "nvidia"}
"""Kind of device -> the folder, which has ``timing.py``."""


class GpuEvent(Protocol):
    """A moment on a stream."""

    def record(self, stream: int) -> None: ...

    def wait(self) -> None:
        """Until it is reached; who asked for one that sleeps gives the CPU to others meanwhile."""

    def seconds_until(self, later: Self) -> float:
        """Between two that have been reached."""


class StreamBlocker(Protocol):
    """A kernel that holds a stream while work is queued behind it."""

    def hold(self) -> None: ...

    def release(self) -> None: ...

    @property
    def timed_out(self) -> bool:
        """Whether the last hold ended by its limit: what was timed behind it counts launches too."""


class GpuVendor(Protocol):
    """What timing asks of a GPU. Streams are handles, in a backend's context, which is current in the thread."""

    HELD_S: float
    """That a stream is held for at the most where no other limit is given."""

    def Event(self, *, sleeps: bool = False) -> GpuEvent: ...  # noqa: N802 - a class

    def clock_fault(self, stream: int) -> str | None:
        """Why its events do not tell the time, and by what times are taken then; None where they do. Never raises."""

    def Blocker(self, stream: int, limit_s: float = ...) -> StreamBlocker: ...  # noqa: N802 - a class

    def synchronize(self, stream: int) -> None: ...

    def finish(self) -> None:
        """Wait for all streams of the context."""

    def l2_set_aside_bytes(self) -> int:
        """How much of the cache is kept for what asks to stay there."""

    def free_memory_bytes(self) -> int: ...

    def l2_cache_bytes(self) -> int: ...

    def sums(self, address: int, size_bytes: int, stream: int) -> list[int] | None:
        """Those of ``primbench.timing.digest`` of so many bytes, made there; None where that cannot be."""

    def start(self, device: Device) -> Any:
        """Counters, and the processes that hold the GPU, before a case. Never raises, nor do the others."""

    def since(self, before: Any, reading: GpuReading) -> GpuReading:
        """The reading, with what was counted since then."""

    def read_load(self, device: Device) -> GpuReading:
        """Clocks, power and temperature now."""

    def energy_j(self, device: Device) -> tuple[float | None, str | None]:
        """The board's energy counter and None, or None and why it cannot be read."""

    def usage(
        self, device: Device, pid: int, missing: dict[str, str], root: Path = ...
    ) -> AbstractContextManager[list[UsageReader]]:
        """What a process and those it started use of the GPU. missing: why there is none for a series."""


@functools.cache
def vendor_of(device: Device) -> GpuVendor:
    return cast("GpuVendor", importlib.import_module(f"primbench.gpu.{VENDORS[device.kind]}.timing"))
