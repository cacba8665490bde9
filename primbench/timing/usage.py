"""What a process and those it started use at this moment: memory of the host and of a GPU, and the GPU itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from primbench.gpu.nvidia import gpm
from primbench.gpu.nvidia.counters import clock_hz, held_back_s, unlisted
from primbench.gpu.nvidia.nvml import ask, find, read_fields
from primbench.gpu.nvidia.processes import processes_on
from primbench.measurement.over_time import GPU
from primbench.system.files import attempt, labelled_bytes, read_number
from primbench.system.memory import group_usage
from primbench.system.processes import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.devices import Device
    from primbench.gpu.nvidia.nvml import NvmlDevice

T = TypeVar("T")

UsageReader = Callable[[dict[str, str]], Mapping[str, float | None]]
"""Gives series by name; None for one that cannot be read, with the reason in the dictionary."""


@contextmanager
def readers(pid: int, device: Device, missing: dict[str, str], root: Path = Path("/")) -> Iterator[list[UsageReader]]:
    """For a process and a device, each with its own cost. missing: why there is none for a series."""
    found = [
        _reader("host_rss_bytes", lambda: rss_bytes(pid, root)),
        _reader("host_pss_bytes", lambda: pss_bytes(pid, root)),
    ]
    usage = attempt(missing, "group_bytes", lambda: group_usage(root))
    if usage is not None:
        found.append(_reader("group_bytes", partial(read_number, usage)))
    if not device.is_gpu:
        yield found
        return
    gpu = attempt(missing, "device", lambda: find(device))
    if gpu is None:
        missing |= dict.fromkeys(GPU, missing.pop("device"))
        yield found
        return
    fields = _OF_GPU | {"gpu_process_bytes": lambda gpu: gpu_process_bytes(gpu, pid, root)}
    found += [partial(read_fields, {name: read}, gpu) for name, read in fields.items()]
    found.append(held_back(gpu))
    with gpm.shares(gpu, missing) as shares:
        yield [*found, shares] if shares else found


def _reader(name: str, read: Callable[[], float]) -> UsageReader:
    return lambda missing: {name: attempt(missing, name, read)}


def rss_bytes(pid: int, root: Path = Path("/")) -> int:
    """What a process and its descendants hold in RAM, each counted for itself. Raises OSError, ValueError."""
    pages = _of_each(pid, root, lambda folder: int((folder / "statm").read_text().split()[1]))
    return os.sysconf("SC_PAGE_SIZE") * sum(pages)


def pss_bytes(pid: int, root: Path = Path("/")) -> int:
    """The same with every page that n processes share counted as an n-th. The kernel looks at every page for it."""
    return sum(_of_each(pid, root, lambda folder: labelled_bytes(folder / "smaps_rollup", "Pss")))


def _of_each(pid: int, root: Path, read: Callable[[Path], T]) -> list[T]:
    """What is read of a process and all that come from it, but for this one, which only watches them."""
    found, waiting = [], [(pid, "")]
    while waiting:
        each, of_parent = waiting.pop()
        folder = root / f"proc/{each}"
        try:
            memory = (folder / "statm").read_text()
            if memory == of_parent:  # vfork(2): until it starts its program it has no memory but its parent's
                continue
            found.append(read(folder))
            waiting += [(child, memory) for child in children(folder) if child != os.getpid()]
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if each == pid:
                raise
    return found


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
    own = [holding[each] for each in _of_each(pid, root, lambda folder: int(folder.name)) if each in holding]
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
