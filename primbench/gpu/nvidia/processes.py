"""Which processes hold a GPU, and which GPUs a process holds: by NVML, and by the device files that it has open."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from primbench.gpu.nvidia.nvml import ask, boards, visible_devices
from primbench.measurement.readings import GpuProcess
from primbench.system.files import attempt
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from pathlib import Path

    from primbench.gpu.nvidia.nvml import NvmlDevice

_FILE = re.compile(r"/dev/nvidia([0-9]{1,4})")


def processes_on(gpu: NvmlDevice) -> dict[int, GpuProcess]:
    """Every process with a context on the GPU, under the number that the driver gives it here. Raises LookupError."""
    listed = list(ask("nvmlDeviceGetComputeRunningProcesses", gpu.handle))
    for others in ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"):
        with contextlib.suppress(LookupError):  # a MIG instance has no graphics
            listed += ask(others, gpu.handle)
    return {each.pid: GpuProcess(pid=each.pid, memory_bytes=each.usedGpuMemory) for each in listed}


def devices_of(root: Path, pid: int = 0) -> tuple[NvmlDevice, ...]:
    """Of this process, 0, what CUDA will show it; of another one the boards on which it has a context, or has open.

    A process that has no context yet has every board open that it may use. Raises PlacementError where NVML cannot be
    used, LookupError where it has none open, OSError where that may not be read.
    """
    if not pid:
        return visible_devices()
    found = boards()
    holding = tuple(gpu for gpu in found if pid in processes_on(gpu))
    if holding:
        return holding
    numbers = {int(name[1]) for path in device_files(root, pid) if (name := _FILE.fullmatch(path))}
    opened = tuple(gpu for gpu in found if ask("nvmlDeviceGetMinorNumber", gpu.board) in numbers)
    if not opened:
        raise LookupError(f"process {pid} has no GPU open")
    return opened


def device_files(root: Path, pid: int) -> list[str]:
    """Device files of GPUs that a process has open, such as "/dev/nvidia0". Raises OSError."""
    folder = folder_of(root, pid) / "fd"
    names = [attempt({}, "", (folder / number).readlink) for number in os.listdir(folder)]
    return sorted({str(name) for name in names if str(name).startswith("/dev/nvidia")})
