"""What a process uses of a GPU at this moment, by NVML and the GPU's own counters."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.gpu.nvidia import gpm
from primbench.gpu.nvidia.counters import clock_hz, held_back_s, unlisted
from primbench.gpu.nvidia.nvml import ask, find, read_fields
from primbench.gpu.nvidia.processes import processes_on
from primbench.measurement.over_time import GPU
from primbench.system.files import attempt
from primbench.system.processes import read_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.devices import Device
    from primbench.gpu.nvidia.nvml import NvmlDevice
    from primbench.measurement.over_time import UsageReader


@contextmanager
def usage(device: Device, pid: int, missing: dict[str, str], root: Path = Path("/")) -> Iterator[list[UsageReader]]:
    """Of a process and those it started. missing: why there is none for a series."""
    gpu = attempt(missing, "device", lambda: find(device))
    if gpu is None:
        missing |= dict.fromkeys(GPU, missing.pop("device"))
        yield []
        return
    fields = _OF_GPU | {"gpu_process_bytes": lambda gpu: gpu_process_bytes(gpu, pid, root)}
    found: list[UsageReader] = [partial(read_fields, {name: read}, gpu) for name, read in fields.items()]
    found.append(held_back(gpu))
    with gpm.shares(gpu, missing) as shares:
        yield [*found, shares] if shares else found


def held_back(gpu: NvmlDevice) -> UsageReader:
    """Of the time since it was asked before, the share in which a policy held the clocks down; None the first time."""
    name = "held_back_fraction"
    before: tuple[float, dict[str, float]] | None = None

    def read(missing: dict[str, str]) -> dict[str, float | None]:
        nonlocal before
        seconds = attempt(missing, name, lambda: held_back_s(gpu))
        now, last = time.monotonic(), before
        before = None if seconds is None else (now, seconds)
        if seconds is None or last is None:
            return {name: None}
        longest_s = max(total_s - last[1].get(policy, total_s) for policy, total_s in seconds.items())
        return {name: min(1.0, longest_s / (now - last[0]))}

    return read


def gpu_process_bytes(gpu: NvmlDevice, pid: int, root: Path = Path("/")) -> int:
    """What a process and its descendants hold of the GPU's memory. Raises LookupError where the driver hides it."""
    holding = processes_on(gpu)
    own = [holding[each] for each in read_family(pid, root, lambda folder: int(folder.name)) if each in holding]
    if not own:
        raise LookupError(unlisted(holding))
    told = [each.memory_bytes for each in own if each.memory_bytes is not None]
    if len(told) < len(own):
        raise LookupError("the driver does not tell how much of the memory a process holds")
    return sum(told)


_OF_GPU: dict[str, Callable[[NvmlDevice], Any]] = {
    "gpu_device_bytes": lambda gpu: ask("nvmlDeviceGetMemoryInfo", gpu.handle).used,
    "nvml_gpu_fraction": lambda gpu: ask("nvmlDeviceGetUtilizationRates", gpu.handle).gpu * 0.01,
    "nvml_memory_fraction": lambda gpu: ask("nvmlDeviceGetUtilizationRates", gpu.handle).memory * 0.01,
    "sm_clock_hz": lambda gpu: clock_hz(gpu, "NVML_CLOCK_SM"),
}
