"""How each GPU is set up, as its driver tells it: one rule a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench.doctor.finding import Activity, Finding, Severity, listed, unseen
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.doctor.place import Place
    from primbench.system.gpu import Gpu

RANK = 2

NEARLY = 0.99  # limits and clocks are set in steps


class GpuRule(NamedTuple):
    """says: what it is that is found, or None; the same words for several GPUs are one finding.

    field: what cannot be None for that. counts: whether it is a number that grows with time.
    """

    check: str
    field: str
    severity: Severity
    distorts: list[Activity]
    says: Callable[[Gpu], str | None]
    advice: str | None = None
    fix: Sequence[str] = ()
    counts: bool = False


def _power_limit(gpu: Gpu) -> str | None:
    limit, usual = gpu.power_limit_w, gpu.power_limit_default_w
    if limit is None or usual is None or limit >= NEARLY * usual:
        return None
    return f"its power is limited to {limit:.0f} W, of {usual:.0f} W by default"


def _application_clock(gpu: Gpu) -> str | None:
    clock, highest = gpu.sm_clock_application_hz, gpu.sm_clock_max_hz
    if clock is None or highest is None or clock >= NEARLY * highest:
        return None
    return f"its clock is set to {format_percent(clock / highest)} of the highest: the board's default, or a choice"


def _pcie_width(gpu: Gpu) -> str | None:
    if gpu.pcie_width is None or gpu.pcie_width >= (gpu.pcie_width_max or 0):
        return None
    return f"its PCIe link has {gpu.pcie_width} of {gpu.pcie_width_max} lanes, and is no wider under load"


def _pcie_generation(gpu: Gpu) -> str | None:
    if gpu.pcie_generation is None or gpu.pcie_generation >= (gpu.pcie_generation_max or 0):
        return None
    return (
        f"its PCIe link is at generation {gpu.pcie_generation} of {gpu.pcie_generation_max} now: idle links slow "
        "down, so only a copy tells whether it stays there"
    )


RULES = (
    GpuRule(
        "persistence",
        "persistence",
        "warning",
        ["start-up"],
        lambda gpu: (
            "persistence mode is off: the first program waits for the driver to set the GPU up, for seconds"
            if gpu.persistence is False
            else None
        ),
        "on the host, as root, let nvidia-persistenced run",
        ["nvidia-smi -pm 1"],
    ),
    GpuRule(
        "ecc",
        "ecc",
        "note",
        ["kernel"],
        lambda gpu: (
            "ECC is off: memory may be larger and faster than with it, and an error goes unseen"
            if gpu.ecc is False
            else None
        ),
    ),
    GpuRule(
        "ecc-errors",
        "ecc_errors_uncorrected",
        "problem",
        ["kernel"],
        lambda gpu: (
            f"{gpu.ecc_errors_uncorrected} memory errors that could not be corrected, since the driver was loaded"
            if gpu.ecc_errors_uncorrected
            else None
        ),
        "let the GPU be reset and tested (dcgmi diag -r 3) before its results are believed",
        counts=True,
    ),
    GpuRule(
        "repair-pending",
        "repair_pending",
        "warning",
        ["kernel"],
        lambda gpu: "faulty memory waits for a reset to be taken out of use" if gpu.repair_pending else None,
        "drain the machine and let the GPU be reset",
    ),
    GpuRule(
        "mig",
        "mig",
        "warning",
        ["kernel", "copy", "collective"],
        lambda gpu: (
            "MIG is on: what is measured is a slice, with its part of processors, cache and bandwidth"
            if gpu.mig
            else None
        ),
        "compare only with slices of the same profile",
    ),
    GpuRule(
        "vgpu",
        "virtualization_mode",
        "warning",
        ["launch", "kernel", "copy"],
        lambda gpu: (
            "this is a virtual GPU: the host shares the board's time among machines"
            if "vgpu" in (gpu.virtualization_mode or "").lower()
            else None
        ),
        "compare only with virtual GPUs of the same kind; ask for a whole board where it matters",
    ),
    GpuRule(
        "confidential-computing",
        "confidential_computing",
        "warning",
        ["copy", "launch", "collective"],
        lambda gpu: (
            "confidential computing is on: copies go through encrypted buffers, and memory cannot be registered"
            if gpu.confidential_computing
            else None
        ),
        "compare only with machines that have it on, too",
    ),
    GpuRule(
        "power-limit",
        "power_limit_w",
        "warning",
        ["kernel"],
        _power_limit,
        "on the host, as root, set the default limit again (nvidia-smi -q -d POWER tells it), or compare at one limit",
    ),
    GpuRule("application-clock", "sm_clock_application_hz", "note", ["kernel", "launch"], _application_clock),
    GpuRule(
        "compute-mode",
        "compute_mode",
        "problem",
        ["start-up"],
        lambda gpu: (
            "its compute mode is 'prohibited': CUDA cannot use it" if gpu.compute_mode == "prohibited" else None
        ),
        "on the host, as root, allow it",
        ["nvidia-smi -c DEFAULT"],
    ),
    GpuRule(
        "exclusive-mode",
        "compute_mode",
        "note",
        ["start-up"],
        lambda gpu: (
            "one process at a time may use it: a second one, such as that of a trace, is refused"
            if (gpu.compute_mode or "").startswith("exclusive")
            else None
        ),
    ),
    GpuRule(
        "pcie-width",
        "pcie_width",
        "problem",
        ["copy"],
        _pcie_width,
        "see to the slot, riser or bifurcation setting: lspci -vv shows LnkCap and LnkSta of every bridge on the way",
    ),
    GpuRule(
        "pcie-generation",
        "pcie_generation",
        "note",
        ["copy"],
        _pcie_generation,
        "primbench memcpy tells what it reaches",
    ),
    GpuRule(
        "pcie-replays",
        "pcie_replays",
        "note",
        ["copy"],
        lambda gpu: (
            f"{gpu.pcie_replays} packets were sent again over its PCIe link since the driver was loaded"
            if gpu.pcie_replays
            else None
        ),
        "where the number grows during copies, the link is at fault",
        counts=True,
    ),
)


def gpu_setup(place: Place) -> Iterator[Finding]:
    """How each GPU is set up: ECC, persistence, MIG, limits of power and clock, its PCIe link."""
    fields = dict.fromkeys(["device", *(rule.field for rule in RULES)])
    for index, gpu in enumerate(place.gpus):
        yield from unseen(f"gpu-setup of cuda:{index}", gpu, *fields)
    for rule in RULES:
        said: dict[tuple[str, float | None], list[str]] = {}
        for index, gpu in enumerate(place.gpus):
            words = rule.says(gpu)
            if words is not None:
                reading = getattr(gpu, rule.field) if rule.counts else None
                said.setdefault((words, reading), []).append(f"cuda:{index}")
        for (words, reading), devices in said.items():
            yield Finding(
                check=rule.check,
                severity=rule.severity,
                summary=f"{listed(devices)}: {words}",
                reading=reading,
                evidence=[f"NVML, {rule.field}"],
                distorts=rule.distorts,
                advice=rule.advice,
                fix=list(rule.fix),
            )


def mps(place: Place) -> Iterator[Finding]:
    """Whether work goes through a multi-process service, which others may use, too."""
    devices = place.environment.devices
    yield from unseen("mps", devices, "mps_control")
    if devices.mps_of_another:  # NVIDIA/nvidia-docker#1543
        yield Finding(
            check="mps",
            severity="problem",
            summary="the multi-process service here is another user's and serves that one alone: CUDA fails or hangs",
            evidence=["the owner of its control pipe is neither root nor this user"],
            distorts=["start-up", "launch", "kernel"],
            advice=place.advice(
                "run as the user who started it, or set CUDA_MPS_PIPE_DIRECTORY to an empty folder",
                engine="--user of whoever started the service",
            ),
        )
        return
    shared = [f"cuda:{index}" for index, gpu in enumerate(place.gpus) if gpu.mps]
    if devices.mps_control or shared:
        yield Finding(
            check="mps",
            severity="warning",
            summary="a multi-process service is at work here: kernels of several programs run side by side on a GPU",
            evidence=(["its control pipe can be reached"] if devices.mps_control else [])
            + ([f"NVML lists its clients on {listed(shared)}"] if shared else []),
            distorts=["launch", "kernel"],
            advice="compare only with places that have it, too: a program that cannot reach the pipe silently runs "
            "without; to measure without it, set CUDA_MPS_PIPE_DIRECTORY to an empty folder",
        )
