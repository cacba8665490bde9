"""What a GPU is and how it is set up, by NVML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from primbench.system.files import attempt
from primbench.system.meaning import Meaning
from primbench.system.nvml import address_of, ask, find, library, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.system.nvml import Device

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


def identity(device: str) -> Gpu:
    """What "cuda:N" is and how it is set up. Never raises: ``missing["device"]`` says why there is none."""
    missing: dict[str, str] = {}
    gpu = attempt(missing, "device", lambda: find(device))
    return Gpu(missing=missing) if gpu is None else described(gpu)


def described(gpu: Device) -> Gpu:
    """What it is and how it is set up. Never raises."""
    missing: dict[str, str] = {}
    return Gpu(**read_fields(_IDENTITY, gpu, missing), missing=missing)


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
    "pci_address": lambda gpu: address_of(gpu.board),
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
