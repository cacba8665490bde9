"""What happens to a GPU while a case runs: its clocks and power, who else holds it, what held it back. Through NVML."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from primbench.devices import Device
from primbench.gpu.nvidia.gpu import ecc_errors_uncorrected, pcie_replays
from primbench.gpu.nvidia.nvml import NvmlDevice, ask, find, library, read_fields
from primbench.gpu.nvidia.processes import processes_on
from primbench.measurement.readings import GpuProcess, GpuReading
from primbench.system.files import attempt
from primbench.system.namespaces import FIRST_NAMESPACES
from primbench.system.processes import ancestors, parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MOST_NAMED = 5
_MPS_SERVER = "nvidia-cuda-mps"  # /proc/PID/comm holds 15 characters


class GpuCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU at one moment: the processes that hold it, and counters that only mean something as differences."""

    device: Device
    """Which GPU."""
    root: Path
    """The root of /proc, by which processes are named."""
    foreign_processes: dict[int, GpuProcess] | None = None
    """Number of a process that is not this one's -> what is known of it; None where that is not told."""
    held_back_s: dict[str, float] | None = None
    """What holds its clocks down -> seconds in which it did; None where that is not told."""
    pcie_replays: int | None = None
    """Packets over PCIe that had to be sent again; None where that is not told."""
    ecc_errors_uncorrected: int | None = None
    """Errors in memory that could not be corrected; None where that is not told."""
    missing: dict[str, str] = {}
    """Field -> why it is not told."""


def start(device: Device, root: Path = Path("/")) -> GpuCounters:
    """Look at a GPU before a case. Never raises. root: where /proc is found.

    The first call for a device makes every call of this module, since the driver takes 0.2 to 9 ms for the first of
    each.
    """
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: _primed(find(device)))
    if gpu is None:
        return GpuCounters(device=device, root=root, missing=missing)
    processes = attempt(missing, "foreign_processes", lambda: _foreign_processes(gpu, root))
    return GpuCounters(
        device=device,
        root=root,
        foreign_processes=processes,
        **read_fields(_COUNTERS, gpu, missing),
        missing=missing,
    )


def since(before: GpuCounters, reading: GpuReading) -> GpuReading:
    """The reading, and with it who else held the GPU before or now, and what was counted from ``before`` until now."""
    now = start(before.device, before.root)
    missing = reading.missing | now.missing | before.missing
    found = (before.foreign_processes or {}) | (now.foreign_processes or {})
    unknown = before.foreign_processes is None or now.foreign_processes is None
    if found:
        missing.pop("foreign_processes", None)
    held_back_s = None
    if before.held_back_s is not None and now.held_back_s is not None:
        same = before.held_back_s.keys() & now.held_back_s.keys()
        held_back_s = {reason: now.held_back_s[reason] - before.held_back_s[reason] for reason in sorted(same)}
    return replace(
        reading,
        foreign_processes=None if unknown and not found else list(found.values()),
        held_back_s=held_back_s,
        pcie_replays=_difference(before.pcie_replays, now.pcie_replays),
        ecc_errors_uncorrected=_difference(before.ecc_errors_uncorrected, now.ecc_errors_uncorrected),
        missing=missing,
    )


def _difference(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def read_load(device: Device) -> GpuReading:
    """Clocks, power, temperature and what holds the clocks back, now. Never raises: ``missing`` has the reasons."""
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: find(device))
    return GpuReading(missing=missing) if gpu is None else load_of(gpu)


def load_of(gpu: NvmlDevice) -> GpuReading:
    """The same of a GPU that was found."""
    missing: dict[str, str] = {}
    return GpuReading(**read_fields(_LOAD, gpu, missing), missing=missing)


def energy_j(device: Device) -> tuple[float | None, str | None]:
    """The board's energy counter and None, or None and why it cannot be read. Only differences mean anything."""
    missing: dict[str, str] = {}
    energy = attempt(missing, "energy_j", lambda: _energy_j(find(device)))
    return energy, missing.get("energy_j")


@functools.cache
def _primed(gpu: NvmlDevice) -> NvmlDevice:
    read_fields(_LOAD | _COUNTERS | {"energy_j": _energy_j, "processes": processes_on}, gpu, {})
    return gpu


def _foreign_processes(gpu: NvmlDevice, root: Path) -> dict[int, GpuProcess]:
    """Other processes that hold the GPU, by their number. Raises LookupError where that cannot be told.

    Drivers list the numbers that processes have outside of a container, or leave out those that are not in it; that
    this process, which holds the GPU, is not among them tells the one, its PID namespace the other.
    """
    holding = processes_on(gpu)
    if os.getpid() not in holding:
        raise LookupError(unlisted(holding))
    foreign = {pid: process for pid, process in holding.items() if not _is_own(pid, root)}
    if not foreign and os.readlink(root / "proc/self/ns/pid") != FIRST_NAMESPACES["pid"]:
        raise LookupError("there is none in this PID namespace; the driver may hide those of others")
    return foreign


def unlisted(holding: Iterable[int]) -> str:
    """Why a process that holds the GPU is not among these, which the driver lists."""
    numbers = ", ".join(map(str, sorted(holding)[:_MOST_NAMED])) or "none"
    return f"the driver lists the processes {numbers}, and not this one: their numbers are of another PID namespace"


_WORKER = rb"\0primbench\.workers\.(?:worker\0(?P<run>run=\d+)|rank)\0"


def _is_own(pid: int, root: Path) -> bool:
    """Whether it is this process, one it started, another worker of its run, or the server that its calls go by."""
    if pid == os.getpid():
        return True
    process = root / f"proc/{pid}"
    with contextlib.suppress(OSError, ValueError):  # it has ended by now, or is in another PID namespace
        if (process / "comm").read_text().startswith(_MPS_SERVER) or os.getpid() in ancestors(root, pid):
            return True
        worker = re.search(_WORKER, (process / "cmdline").read_bytes())
        if worker is not None:
            mine = re.search(_WORKER, (root / "proc/self/cmdline").read_bytes())
            return parent(root, pid) == os.getppid() or (mine is not None and worker["run"] == mine["run"] is not None)
    return False


def held_back_s(gpu: NvmlDevice) -> dict[str, float]:
    """Seconds since the driver was loaded in which each policy held the clocks down; NVML counts nanoseconds."""
    fields = ask("nvmlDeviceGetFieldValues", gpu.board, [getattr(library(), name) for name in _POLICIES.values()])
    found = {
        reason: field.value.ullVal * 1e-9
        for reason, field in zip(_POLICIES, fields, strict=True)
        if field.nvmlReturn == library().NVML_SUCCESS
    }
    if not found:
        raise LookupError(f"nvmlDeviceGetFieldValues: no counter of policies: NVML error {fields[0].nvmlReturn}")
    return found


def _energy_j(gpu: NvmlDevice) -> float:
    return float(ask("nvmlDeviceGetTotalEnergyConsumption", gpu.board) * 1e-3)


def clock_hz(gpu: NvmlDevice, clock: str) -> float:
    """At this moment. clock: by the name of NVML's constant."""
    return float(ask("nvmlDeviceGetClockInfo", gpu.board, getattr(library(), clock)) * 1e6)


def _power_w(gpu: NvmlDevice) -> float:
    """Power at this moment.

    GetPowerUsage is a mean over 1 s on GPUs that have the instant field, and instant on older ones: NVML API
    reference, nvmlDeviceGetPowerUsage.
    """
    field = ask("nvmlDeviceGetFieldValues", gpu.board, [library().NVML_FI_DEV_POWER_INSTANT])[0]
    if field.nvmlReturn == library().NVML_SUCCESS:
        return float(field.value.uiVal * 1e-3)
    return float(ask("nvmlDeviceGetPowerUsage", gpu.board) * 1e-3)


def _clocks_event_reasons(gpu: NvmlDevice) -> list[str]:
    mask = ask("nvmlDeviceGetCurrentClocksEventReasons", gpu.board)
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return [_reason_names().get(bit, f"reason {bit:#x}") for bit in bits]


@functools.cache
def _reason_names() -> dict[int, str]:
    """Bit -> words, from NVML's constants: nvmlClocksEventReasonSwPowerCap is "sw power cap"."""
    names: dict[int, str] = {}
    for constant in sorted(dir(library())):
        found = re.fullmatch(r"nvmlClocks(?:Event|Throttle)Reason([A-Z]\w+)", constant)
        if found is not None:
            words = re.sub(r"\B(?=[A-Z])", " ", found[1]).lower()
            names.setdefault(getattr(library(), constant), words)
    return names


# The fields NVML_FI_DEV_CLOCKS_EVENT_REASON_* tell more, but their numbers were moved between two versions of nvml.h.
_POLICIES = {
    "power": "NVML_FI_DEV_PERF_POLICY_POWER",
    "thermal": "NVML_FI_DEV_PERF_POLICY_THERMAL",
    "sync boost": "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST",
}

_COUNTERS: dict[str, Callable[[NvmlDevice], Any]] = {
    "held_back_s": held_back_s,
    "pcie_replays": pcie_replays,
    "ecc_errors_uncorrected": ecc_errors_uncorrected,
}

_LOAD: dict[str, Callable[[NvmlDevice], Any]] = {
    "sm_clock_hz": lambda gpu: clock_hz(gpu, "NVML_CLOCK_SM"),
    "memory_clock_hz": lambda gpu: clock_hz(gpu, "NVML_CLOCK_MEM"),
    "power_w": _power_w,
    "temperature_c": lambda gpu: ask("nvmlDeviceGetTemperature", gpu.board, library().NVML_TEMPERATURE_GPU),
    "clocks_event_reasons": _clocks_event_reasons,
}
