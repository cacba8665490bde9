"""What a GPU is and how it is set up, by NVML."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.gpu.nvidia.nvml import address_of, ask, library, read_fields
from primbench.system.meaning import Fact, facts_of

if TYPE_CHECKING:
    from primbench.gpu.nvidia.nvml import NvmlDevice

_gpu = functools.partial(Fact, source="NVML", rule="gpu", layer="machine", of_others=False)


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, as one process sees it. A field that could not be read is None, with the reason in ``missing``.

    Of a MIG instance, where that is what CUDA sees, are its name, uuid, memory and sharing; the rest is the board's.
    """

    # fmt: off
    name: Annotated[str | None, _gpu("The name of its model.",
        read=lambda gpu: ask("nvmlDeviceGetName", gpu.handle))] = None
    uuid: Annotated[str | None, _gpu("The id of this very GPU.", varies=True,
        read=lambda gpu: ask("nvmlDeviceGetUUID", gpu.handle))] = None
    pci_address: Annotated[str | None, _gpu("Its place on the PCI bus.", varies=True,
        read=lambda gpu: address_of(gpu.board))] = None
    driver_version: Annotated[str | None, _gpu("The version of its driver.",
        read=lambda gpu: ask("nvmlSystemGetDriverVersion"))] = None
    cuda_driver_version: Annotated[str | None, _gpu("The newest CUDA that the driver serves.",
        read=lambda gpu: _cuda_version(ask("nvmlSystemGetCudaDriverVersion")))] = None
    memory_bytes: Annotated[int | None, _gpu("The size of its memory.",
        read=lambda gpu: ask("nvmlDeviceGetMemoryInfo", gpu.handle).total)] = None
    bar1_bytes: Annotated[int | None, _gpu("What the host can map of the memory.",
        read=lambda gpu: ask("nvmlDeviceGetBAR1MemoryInfo", gpu.board).bar1Total)] = None
    compute_capability: Annotated[str | None, _gpu("What its code is made for, such as 9.0.",
        read=lambda gpu: "{}.{}".format(*ask("nvmlDeviceGetCudaComputeCapability", gpu.board)))] = None
    sm_clock_max_hz: Annotated[float | None, _gpu("The highest clock that its processors can have.",
        read=lambda gpu: ask("nvmlDeviceGetMaxClockInfo", gpu.board, library().NVML_CLOCK_SM) * 1e6)] = None
    sm_clock_application_hz: Annotated[float | None, _gpu("What that is set to, without clocks locked.",
        read=lambda gpu: ask("nvmlDeviceGetApplicationsClock", gpu.board, library().NVML_CLOCK_SM) * 1e6)] = None
    memory_clock_max_hz: Annotated[float | None, _gpu("The highest clock that its memory can have.",
        read=lambda gpu: ask("nvmlDeviceGetMaxClockInfo", gpu.board, library().NVML_CLOCK_MEM) * 1e6)] = None
    power_limit_w: Annotated[float | None, _gpu("The power that it may take, as it is in force.",
        read=lambda gpu: ask("nvmlDeviceGetEnforcedPowerLimit", gpu.board) * 1e-3)] = None
    power_limit_default_w: Annotated[float | None, _gpu("That limit as it comes.",
        read=lambda gpu: ask("nvmlDeviceGetPowerManagementDefaultLimit", gpu.board) * 1e-3)] = None
    power_limit_max_w: Annotated[float | None, _gpu("How far that limit can be raised.",
        read=lambda gpu: ask("nvmlDeviceGetPowerManagementLimitConstraints", gpu.board)[1] * 1e-3)] = None
    compute_mode: Annotated[str | None, _gpu("How many processes it serves: default, exclusive process or prohibited.",
        read=lambda gpu: _word(ask("nvmlDeviceGetComputeMode", gpu.board), _COMPUTE_MODES))] = None
    virtualization_mode: Annotated[str | None, _gpu("How it is handed to a virtual machine: none, passthrough, vgpu.",
        read=lambda gpu: _word(ask("nvmlDeviceGetVirtualizationMode", gpu.board), _VIRTUALIZATION_MODES))] = None
    addressing_mode: Annotated[str | None, _gpu("How it reaches the host's pageable memory: none, hmm or ats.",
        read=lambda gpu: _word(ask("nvmlDeviceGetAddressingMode", gpu.board), _ADDRESSING_MODES))] = None
    confidential_computing: Annotated[bool | None, _gpu("Whether what it is sent is encrypted on the way.",
        read=lambda gpu: ask("nvmlSystemGetConfComputeState").ccFeature != 0)] = None
    ecc: Annotated[bool | None, _gpu("Whether its memory corrects errors.",
        read=lambda gpu: ask("nvmlDeviceGetEccMode", gpu.board)[0] == 1)] = None
    ecc_errors_uncorrected: Annotated[int | None, _gpu(
        "Errors of memory that were seen and not mended since the driver was loaded.", varies=True,
        read=ecc_errors_uncorrected)] = None
    repair_pending: Annotated[bool | None, _gpu(
        "Whether rows or pages of memory wait for a reset to be taken out of use.", read=_repair_pending)] = None
    persistence: Annotated[bool | None, _gpu("Whether the driver stays with it while nothing uses it.",
        read=lambda gpu: ask("nvmlDeviceGetPersistenceMode", gpu.board) == 1)] = None
    mig: Annotated[bool | None, _gpu("Whether it is divided into instances.",
        read=lambda gpu: ask("nvmlDeviceGetMigMode", gpu.board)[0] == 1)] = None
    mps: Annotated[bool | None, _gpu("Whether processes that share it by a multi-process service are listed here.",
        read=lambda gpu: bool(ask("nvmlDeviceGetMPSComputeRunningProcesses", gpu.handle)))] = None
    pcie_generation: Annotated[int | None, _gpu("Of its link now, which may be less while it is idle.", varies=True,
        read=lambda gpu: ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu.board))] = None
    pcie_generation_max: Annotated[int | None, _gpu("Of its link at most.",
        read=lambda gpu: ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu.board))] = None
    pcie_width: Annotated[int | None, _gpu("Lanes of its link now, which may be fewer while it is idle.",
        read=lambda gpu: ask("nvmlDeviceGetCurrPcieLinkWidth", gpu.board))] = None
    pcie_width_max: Annotated[int | None, _gpu("Lanes of its link at most.",
        read=lambda gpu: ask("nvmlDeviceGetMaxPcieLinkWidth", gpu.board))] = None
    pcie_replays: Annotated[int | None, _gpu(
        "Transfers over PCIe that had to be repeated since the driver was loaded.", varies=True, read=pcie_replays)
    ] = None
    # fmt: on
    missing: dict[str, str] = {}


def described(gpu: NvmlDevice) -> Gpu:
    """What it is and how it is set up. Never raises."""
    missing: dict[str, str] = {}
    return Gpu(**read_fields({name: fact.value for name, fact in facts_of(Gpu).items()}, gpu, missing), missing=missing)


def pcie_replays(gpu: NvmlDevice) -> int:
    """Transfers over PCIe that had to be repeated, since the driver was loaded. Raises LookupError."""
    return int(ask("nvmlDeviceGetPcieReplayCounter", gpu.board))


def ecc_errors_uncorrected(gpu: NvmlDevice) -> int:
    """Memory errors that were seen and not mended, since the driver was loaded. Raises LookupError."""
    kind, since = library().NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library().NVML_VOLATILE_ECC
    return int(ask("nvmlDeviceGetTotalEccErrors", gpu.board, kind, since))


def _repair_pending(gpu: NvmlDevice) -> bool:
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
