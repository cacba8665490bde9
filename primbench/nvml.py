"""What the NVIDIA driver says of a GPU, through NVML (module ``pynvml`` of nvidia-ml-py).

Devices are named as CUDA names them, "cuda:N", and found among NVML's, which number all GPUs by PCI address,
without starting CUDA: a placement must be in effect before CUDA starts its threads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import InvalidRequest, PlacementError
from primbench.measurement import GpuReading
from primbench.sysfiles import attempt, sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, as one process sees it. A field that could not be read is None, with the reason in ``missing``.

    name, uuid, memory_bytes: of the MIG instance where that is what CUDA sees; the rest is the board's.
    cuda_driver_version: the newest CUDA that the driver serves. pcie_*: idle links may report less than they
    reach under load.
    """

    name: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    mig: bool | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    missing: dict[str, str] = {}


@dataclass(frozen=True, eq=False)
class _Device:
    """NVML handles: of what CUDA sees, and of the board that is on; they differ for a MIG instance."""

    handle: Any
    board: Any


def device_count() -> int:
    """How many devices CUDA will see. Raises PlacementError where NVML cannot be used."""
    return len(_visible_devices())


def pci_address(device: str) -> str:
    """The address of "cuda:N" as sysfs writes it. Raises PlacementError where it cannot be had."""
    board = _find(device).board
    try:
        return _pci_address(board)
    except LookupError as error:
        raise PlacementError(f"--device {device}: {error}") from None


def identity(device: str) -> Gpu:
    """What "cuda:N" is and how it is set up. Never raises: ``missing["device"]`` says why there is none."""
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: _find(device))
    fields = {} if gpu is None else _read(_IDENTITY, gpu, missing)
    return Gpu(**fields, missing=missing)


def read_load(device: str) -> GpuReading:
    """Clocks, power, temperature and what holds the clocks back, now. Never raises, as ``identity``."""
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: _primed(_find(device)))
    fields = {} if gpu is None else _read(_LOAD, gpu, missing)
    return GpuReading(**fields, missing=missing)


def energy_j(device: str) -> tuple[float | None, str | None]:
    """The board's energy counter and None, or None and why it cannot be read. Only differences mean anything.

    The first call for a device makes every call of ``read_load`` as well, since the driver takes 0.2 to 9 ms
    for the first of each: call it before a case, not only after.
    """
    missing: dict[str, str] = {}
    energy = attempt(missing, "energy_j", lambda: _energy_j(_primed(_find(device))))
    return energy, missing.get("energy_j")


def _ask(function: str, *arguments: Any) -> Any:
    """Call an NVML function by name. Raises LookupError naming it, which ``attempt`` turns into a reason."""
    library = _library()
    try:
        return getattr(library, function)(*arguments)
    except library.NVMLError as error:
        raise LookupError(f"{function}: {_name_of(error)}") from None


def _name_of(error: Any) -> str:
    return f"{type(error).__name__} ({error.value})"


@functools.cache
def _library() -> Any:
    """The module, with NVML started; it stays so until the process ends."""
    try:
        import pynvml
    except ImportError:
        raise PlacementError("GPUs cannot be found: module 'pynvml' is absent: pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise PlacementError(
            f"GPUs cannot be found: nvmlInit: {_name_of(error)}: is there an NVIDIA driver, visible here?"
        ) from None
    return pynvml


def _find(device: str) -> _Device:
    found = re.fullmatch(r"cuda:([0-9]+)", device, re.ASCII)
    if found is None:
        raise InvalidRequest(f"device {device!r}: expected cuda:0, cuda:1, ...")
    devices = _visible_devices()
    if int(found[1]) >= len(devices):
        names = ", ".join(f"cuda:{index}" for index in range(len(devices))) or "none"
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
        raise PlacementError(f"--device {device}: the GPUs to be seen here are {names}{because}")
    return devices[int(found[1])]


def _visible_devices() -> tuple[_Device, ...]:
    try:
        return _select(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))
    except LookupError as error:
        raise PlacementError(f"GPUs cannot be found: {error}") from None


@functools.cache
def _select(visible: str | None, order: str | None) -> tuple[_Device, ...]:
    """CUDA's devices in CUDA's order: CUDA C++ Programming Guide, "CUDA Environment Variables"."""
    handles = [_ask("nvmlDeviceGetHandleByIndex", index) for index in range(_ask("nvmlDeviceGetCount"))]
    boards = [_Device(handle, handle) for handle in handles]
    if visible is None:
        return tuple(_in_cuda_order(boards, order))
    chosen = []
    for entry in visible.split(","):
        device = _named(entry.strip(), boards, order)
        if device is None:  # CUDA ignores what follows the first entry it does not know
            break
        chosen.append(device)
    return tuple(chosen)


def _named(entry: str, boards: list[_Device], order: str | None) -> _Device | None:
    """The device that one entry of CUDA_VISIBLE_DEVICES means: a number, or the start of a UUID."""
    if re.fullmatch(r"[0-9]{1,4}", entry, re.ASCII):
        return _in_cuda_order(boards, order)[int(entry)] if int(entry) < len(boards) else None
    if entry.startswith("MIG-"):
        boards = [instance for board in boards for instance in _mig_instances(board.handle)]
    elif not entry.startswith("GPU-"):
        return None
    matching = [device for device in boards if _ask("nvmlDeviceGetUUID", device.handle).startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _in_cuda_order(boards: list[_Device], order: str | None) -> list[_Device]:
    """CUDA puts the fastest first unless told to go by PCI address, as NVML does; equal if all are alike."""
    certain = len(boards) < 2 or order == "PCI_BUS_ID"
    if not certain and len({_ask("nvmlDeviceGetName", board.handle) for board in boards}) > 1:
        raise PlacementError(
            "the GPUs differ, so CUDA's order of them is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, "
            "or name them by UUID in CUDA_VISIBLE_DEVICES"
        )
    return boards


def _mig_instances(board: Any) -> list[_Device]:
    instances = []
    with contextlib.suppress(LookupError):  # a board without MIG
        for slot in range(_ask("nvmlDeviceGetMaxMigDeviceCount", board)):
            with contextlib.suppress(LookupError):  # an empty slot
                instances.append(_Device(_ask("nvmlDeviceGetMigDeviceHandleByIndex", board, slot), board))
    return instances


@functools.cache
def _primed(gpu: _Device) -> _Device:
    _read(_LOAD | {"energy_j": _energy_j}, gpu, {})
    return gpu


def _read(fields: dict[str, Callable[[_Device], Any]], gpu: _Device, missing: dict[str, str]) -> dict[str, Any]:
    return {field: attempt(missing, field, functools.partial(read, gpu)) for field, read in fields.items()}


def _pci_address(board: Any) -> str:
    return sysfs_address(_ask("nvmlDeviceGetPciInfo", board).busId)


def _energy_j(gpu: _Device) -> float:
    return float(_ask("nvmlDeviceGetTotalEnergyConsumption", gpu.board) * 1e-3)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _clock_hz(gpu: _Device, clock: str) -> float:
    return float(_ask("nvmlDeviceGetClockInfo", gpu.board, getattr(_library(), clock)) * 1e6)


def _power_w(gpu: _Device) -> float:
    """Power at this moment.

    GetPowerUsage is a mean over 1 s on GPUs that have the instant field, and instant on older ones: NVML API
    reference, nvmlDeviceGetPowerUsage.
    """
    field = _ask("nvmlDeviceGetFieldValues", gpu.board, [_library().NVML_FI_DEV_POWER_INSTANT])[0]
    if field.nvmlReturn == _library().NVML_SUCCESS:
        return float(field.value.uiVal * 1e-3)
    return float(_ask("nvmlDeviceGetPowerUsage", gpu.board) * 1e-3)


def _clocks_event_reasons(gpu: _Device) -> list[str]:
    mask = _ask("nvmlDeviceGetCurrentClocksEventReasons", gpu.board)
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return [_reason_names().get(bit, f"reason {bit:#x}") for bit in bits]


@functools.cache
def _reason_names() -> dict[int, str]:
    """Bit -> words, from NVML's constants: nvmlClocksEventReasonSwPowerCap is "sw power cap"."""
    names: dict[int, str] = {}
    for constant in sorted(dir(_library())):
        found = re.fullmatch(r"nvmlClocks(?:Event|Throttle)Reason([A-Z]\w+)", constant)
        if found is not None:
            words = re.sub(r"\B(?=[A-Z])", " ", found[1]).lower()
            names.setdefault(getattr(_library(), constant), words)
    return names


_IDENTITY: dict[str, Callable[[_Device], Any]] = {
    "name": lambda gpu: _ask("nvmlDeviceGetName", gpu.handle),
    "uuid": lambda gpu: _ask("nvmlDeviceGetUUID", gpu.handle),
    "pci_address": lambda gpu: _pci_address(gpu.board),
    "driver_version": lambda gpu: _ask("nvmlSystemGetDriverVersion"),
    "cuda_driver_version": lambda gpu: _cuda_version(_ask("nvmlSystemGetCudaDriverVersion")),
    "memory_bytes": lambda gpu: _ask("nvmlDeviceGetMemoryInfo", gpu.handle).total,
    "compute_capability": lambda gpu: "{}.{}".format(*_ask("nvmlDeviceGetCudaComputeCapability", gpu.board)),
    "power_limit_w": lambda gpu: _ask("nvmlDeviceGetEnforcedPowerLimit", gpu.board) * 1e-3,
    "ecc": lambda gpu: _ask("nvmlDeviceGetEccMode", gpu.board)[0] == 1,
    "persistence": lambda gpu: _ask("nvmlDeviceGetPersistenceMode", gpu.board) == 1,
    "mig": lambda gpu: _ask("nvmlDeviceGetMigMode", gpu.board)[0] == 1,
    "pcie_generation": lambda gpu: _ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu.board),
    "pcie_generation_max": lambda gpu: _ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu.board),
    "pcie_width": lambda gpu: _ask("nvmlDeviceGetCurrPcieLinkWidth", gpu.board),
    "pcie_width_max": lambda gpu: _ask("nvmlDeviceGetMaxPcieLinkWidth", gpu.board),
}

_LOAD: dict[str, Callable[[_Device], Any]] = {
    "sm_clock_hz": lambda gpu: _clock_hz(gpu, "NVML_CLOCK_SM"),
    "memory_clock_hz": lambda gpu: _clock_hz(gpu, "NVML_CLOCK_MEM"),
    "power_w": _power_w,
    "temperature_c": lambda gpu: _ask("nvmlDeviceGetTemperature", gpu.board, _library().NVML_TEMPERATURE_GPU),
    "clocks_event_reasons": _clocks_event_reasons,
}
