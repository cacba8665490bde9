"""Which GPUs there are and how they are set up, through NVML (module ``pynvml`` of nvidia-ml-py).

Devices are named as CUDA names them, "cuda:N", and found among NVML's, which number all GPUs by PCI address,
without starting CUDA: a placement must be in effect before CUDA starts its threads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.errors import InvalidRequest, PlacementError
from primbench.system.files import attempt, sysfs_address
from primbench.system.meaning import Meaning

if TYPE_CHECKING:
    from collections.abc import Callable


_VARIES = Meaning("machine", "gpu", varies=True)


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, as one process sees it. A field that could not be read is None, with the reason in ``missing``.

    name, uuid, memory_bytes, mps: of the MIG instance where that is what CUDA sees; the rest is the board's.
    cuda_driver_version: the newest CUDA that the driver serves. bar1_bytes: what the host can map of the memory.
    *_clock_max_hz: the highest the board can have; sm_clock_application_hz: what it is set to, without clocks locked.
    power_limit_w: in force; power_limit_max_w: as far as it can be raised.
    compute_mode: "default", "exclusive process", "prohibited". virtualization_mode: "none", "passthrough", "vgpu", ...
    addressing_mode: how it reaches the host's pageable memory: "none", "hmm", "ats".
    mps: whether processes that share it through a multi-process service are listed here.
    pcie_*: idle links may report less than they reach under load. pcie_replays, ecc_errors_uncorrected: since the
    driver was loaded. repair_pending: memory rows or pages wait for a reset to be taken out of use.
    """

    name: str | None = None
    uuid: Annotated[str | None, _VARIES] = None
    pci_address: Annotated[str | None, _VARIES] = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    memory_bytes: int | None = None
    bar1_bytes: int | None = None
    compute_capability: str | None = None
    sm_clock_max_hz: float | None = None
    sm_clock_application_hz: float | None = None
    memory_clock_max_hz: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    power_limit_max_w: float | None = None
    compute_mode: str | None = None
    virtualization_mode: str | None = None
    addressing_mode: str | None = None
    confidential_computing: bool | None = None
    ecc: bool | None = None
    ecc_errors_uncorrected: Annotated[int | None, _VARIES] = None
    repair_pending: bool | None = None
    persistence: bool | None = None
    mig: bool | None = None
    mps: bool | None = None
    pcie_generation: Annotated[int | None, _VARIES] = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: Annotated[int | None, _VARIES] = None
    missing: dict[str, str] = {}


@dataclass(frozen=True, eq=False)
class Device:
    """NVML handles: of what CUDA sees, and of the board it is on; they differ for a MIG instance."""

    handle: Any
    board: Any


def device_count() -> int:
    """How many devices CUDA will see. Raises PlacementError where NVML cannot be used."""
    return len(visible_devices())


def pci_address(device: str) -> str:
    """The address of "cuda:N" as sysfs writes it. Raises PlacementError where it cannot be had."""
    board = find(device).board
    try:
        return _pci_address(board)
    except LookupError as error:
        raise PlacementError(f"device={device}: {error}") from None


def identity(device: str) -> Gpu:
    """What "cuda:N" is and how it is set up. Never raises: ``missing["device"]`` says why there is none."""
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: find(device))
    return Gpu(missing=missing) if gpu is None else described(gpu)


def described(gpu: Device) -> Gpu:
    """What it is and how it is set up. Never raises."""
    missing: dict[str, str] = {}
    return Gpu(**read_fields(_IDENTITY, gpu, missing), missing=missing)


def ask(function: str, *arguments: Any) -> Any:
    """Call an NVML function by name. Raises LookupError naming it, which ``attempt`` turns into a reason."""
    nvml = library()
    call = getattr(nvml, function, None)
    if call is None:
        raise LookupError(f"{function}: this version of nvidia-ml-py does not have it")
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        raise LookupError(f"{function}: {_name_of(error)}") from None
    except nvml.NVMLLibraryMismatchError:
        raise LookupError(f"{function}: this driver does not have it") from None


def _name_of(error: Any) -> str:
    return f"{type(error).__name__} ({error.value})"


@functools.cache
def library() -> Any:
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


def find(device: str) -> Device:
    """The handles of "cuda:N". Raises InvalidRequest for another name, PlacementError where there is none."""
    found = re.fullmatch(r"cuda:([0-9]+)", device, re.ASCII)
    if found is None:
        raise InvalidRequest(f"device {device!r}: expected cuda:0, cuda:1, ...")
    devices = visible_devices()
    if int(found[1]) >= len(devices):
        names = ", ".join(f"cuda:{index}" for index in range(len(devices))) or "none"
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
        raise PlacementError(f"device={device}: the GPUs to be seen here are {names}{because}")
    return devices[int(found[1])]


def visible_devices() -> tuple[Device, ...]:
    """What CUDA will see, in its order. Raises PlacementError where NVML cannot be used."""
    try:
        return _select(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))
    except LookupError as error:
        raise PlacementError(f"GPUs cannot be found: {error}") from None


def boards() -> list[Device]:
    """All that this place shows, in NVML's order. Raises LookupError, and PlacementError where NVML cannot be used."""
    handles = [ask("nvmlDeviceGetHandleByIndex", index) for index in range(ask("nvmlDeviceGetCount"))]
    return [Device(handle, handle) for handle in handles]


@functools.cache
def _select(visible: str | None, order: str | None) -> tuple[Device, ...]:
    """CUDA's devices in CUDA's order: CUDA C++ Programming Guide, "CUDA Environment Variables"."""
    there = boards()
    if visible is None:
        return _at_once(_in_cuda_order(there, order))
    chosen: list[Device] = []
    for entry in visible.split(","):
        device = _named(entry.strip(), there, order)
        if device is None:  # CUDA ignores what follows the first entry it does not know
            break
        chosen.append(device)
    return _at_once(chosen)


def _named(entry: str, boards: list[Device], order: str | None) -> Device | None:
    """The device that one entry of CUDA_VISIBLE_DEVICES means: a number, or the start of a UUID."""
    if re.fullmatch(r"[0-9]{1,4}", entry, re.ASCII):
        return _in_cuda_order(boards, order)[int(entry)] if int(entry) < len(boards) else None
    if entry.startswith("MIG-"):
        boards = [instance for board in boards for instance in _mig_instances(board.handle)]
    elif not entry.startswith("GPU-"):
        return None
    matching = [device for device in boards if ask("nvmlDeviceGetUUID", device.handle).startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _in_cuda_order(boards: list[Device], order: str | None) -> list[Device]:
    """CUDA puts the fastest first unless told to go by PCI address, as NVML does; equal if all are alike."""
    certain = len(boards) < 2 or order == "PCI_BUS_ID"
    if not certain and len({ask("nvmlDeviceGetName", board.handle) for board in boards}) > 1:
        raise PlacementError(
            "the GPUs differ, so CUDA's order of them is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, "
            "or name them by UUID in CUDA_VISIBLE_DEVICES"
        )
    return boards


def _at_once(chosen: list[Device]) -> tuple[Device, ...]:
    """A process sees one MIG instance and nothing beside it: MIG User Guide, "CUDA Device Enumeration"."""
    instances = [
        instance
        for device in chosen
        for instance in (_mig_instances(device.board) if device.handle is device.board else [device])
    ]
    return tuple(instances[:1] or chosen)


def _mig_instances(board: Any) -> list[Device]:
    instances = []
    with contextlib.suppress(LookupError):  # a board without MIG
        for slot in range(ask("nvmlDeviceGetMaxMigDeviceCount", board)):
            with contextlib.suppress(LookupError):  # an empty slot
                instances.append(Device(ask("nvmlDeviceGetMigDeviceHandleByIndex", board, slot), board))
    return instances


def read_fields(fields: dict[str, Callable[[Device], Any]], gpu: Device, missing: dict[str, str]) -> dict[str, Any]:
    """What each reader finds; None for those that fail, with the reason in ``missing``."""
    return {field: attempt(missing, field, functools.partial(read, gpu)) for field, read in fields.items()}


def _pci_address(board: Any) -> str:
    return sysfs_address(ask("nvmlDeviceGetPciInfo", board).busId)


def pcie_replays(gpu: Device) -> int:
    """Transfers over PCIe that had to be repeated, since the driver was loaded. Raises LookupError."""
    return int(ask("nvmlDeviceGetPcieReplayCounter", gpu.board))


def ecc_errors_uncorrected(gpu: Device) -> int:
    """Memory errors that were seen and not mended, since the driver was loaded. Raises LookupError."""
    kind, since = library().NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library().NVML_VOLATILE_ECC
    return int(ask("nvmlDeviceGetTotalEccErrors", gpu.board, kind, since))


def _repair_pending(gpu: Device) -> bool:
    try:
        return bool(ask("nvmlDeviceGetRemappedRows", gpu.board)[2])
    except LookupError:  # before Ampere whole pages are retired
        return bool(ask("nvmlDeviceGetRetiredPagesPendingStatus", gpu.board))


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _word(number: int, words: tuple[str, ...]) -> str:
    """The name of an NVML constant; one that is newer than this file stays a number."""
    return words[number] if number < len(words) else f"mode {number}"


# By NVML's own numbers: nvmlComputeMode_t, nvmlGpuVirtualizationMode_t, nvmlDeviceAddressingModeType_t.
_COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
_VIRTUALIZATION_MODES = ("none", "passthrough", "vgpu", "host vgpu", "host vsga")
_ADDRESSING_MODES = ("none", "hmm", "ats")

_IDENTITY: dict[str, Callable[[Device], Any]] = {
    "name": lambda gpu: ask("nvmlDeviceGetName", gpu.handle),
    "uuid": lambda gpu: ask("nvmlDeviceGetUUID", gpu.handle),
    "pci_address": lambda gpu: _pci_address(gpu.board),
    "driver_version": lambda gpu: ask("nvmlSystemGetDriverVersion"),
    "cuda_driver_version": lambda gpu: _cuda_version(ask("nvmlSystemGetCudaDriverVersion")),
    "memory_bytes": lambda gpu: ask("nvmlDeviceGetMemoryInfo", gpu.handle).total,
    "bar1_bytes": lambda gpu: ask("nvmlDeviceGetBAR1MemoryInfo", gpu.board).bar1Total,
    "compute_capability": lambda gpu: "{}.{}".format(*ask("nvmlDeviceGetCudaComputeCapability", gpu.board)),
    "sm_clock_max_hz": lambda gpu: ask("nvmlDeviceGetMaxClockInfo", gpu.board, library().NVML_CLOCK_SM) * 1e6,
    "sm_clock_application_hz": lambda gpu: (
        ask("nvmlDeviceGetApplicationsClock", gpu.board, library().NVML_CLOCK_SM) * 1e6
    ),
    "memory_clock_max_hz": lambda gpu: ask("nvmlDeviceGetMaxClockInfo", gpu.board, library().NVML_CLOCK_MEM) * 1e6,
    "power_limit_w": lambda gpu: ask("nvmlDeviceGetEnforcedPowerLimit", gpu.board) * 1e-3,
    "power_limit_default_w": lambda gpu: ask("nvmlDeviceGetPowerManagementDefaultLimit", gpu.board) * 1e-3,
    "power_limit_max_w": lambda gpu: ask("nvmlDeviceGetPowerManagementLimitConstraints", gpu.board)[1] * 1e-3,
    "compute_mode": lambda gpu: _word(ask("nvmlDeviceGetComputeMode", gpu.board), _COMPUTE_MODES),
    "virtualization_mode": lambda gpu: _word(ask("nvmlDeviceGetVirtualizationMode", gpu.board), _VIRTUALIZATION_MODES),
    "addressing_mode": lambda gpu: _word(ask("nvmlDeviceGetAddressingMode", gpu.board), _ADDRESSING_MODES),
    "confidential_computing": lambda gpu: ask("nvmlSystemGetConfComputeState").ccFeature != 0,
    "ecc": lambda gpu: ask("nvmlDeviceGetEccMode", gpu.board)[0] == 1,
    "ecc_errors_uncorrected": ecc_errors_uncorrected,
    "repair_pending": _repair_pending,
    "persistence": lambda gpu: ask("nvmlDeviceGetPersistenceMode", gpu.board) == 1,
    "mig": lambda gpu: ask("nvmlDeviceGetMigMode", gpu.board)[0] == 1,
    "mps": lambda gpu: bool(ask("nvmlDeviceGetMPSComputeRunningProcesses", gpu.handle)),
    "pcie_generation": lambda gpu: ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu.board),
    "pcie_generation_max": lambda gpu: ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu.board),
    "pcie_width": lambda gpu: ask("nvmlDeviceGetCurrPcieLinkWidth", gpu.board),
    "pcie_width_max": lambda gpu: ask("nvmlDeviceGetMaxPcieLinkWidth", gpu.board),
    "pcie_replays": pcie_replays,
}
