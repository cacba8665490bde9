"""How each GPU is set up, as its driver tells it: a row a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.devices import nth_gpu
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.system.meaning import FactId
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.doctor.cause import Severity
    from primbench.doctor.place import Place
    from primbench.gpu.nvidia.gpu import Gpu
    from primbench.spec.setting import Activity

RANK = 2

NEARLY = 0.99  # limits and clocks are set in steps

Shown = list[str | float]


def _is(state: object) -> Shown | None:
    """What shows a setting that is on or off: no more than that."""
    return [] if state else None


def _power_limit(gpu: Gpu) -> Shown | None:
    limit, usual = gpu.power_limit_w, gpu.power_limit_default_w
    return None if limit is None or usual is None or limit >= NEARLY * usual else [round(limit), round(usual)]


def _application_clock(gpu: Gpu) -> Shown | None:
    clock, highest = gpu.sm_clock_application_hz, gpu.sm_clock_max_hz
    return None if clock is None or highest is None or clock >= NEARLY * highest else [format_percent(clock / highest)]


def _less(now: int | None, most: int | None) -> Shown | None:
    return None if now is None or now >= (most or 0) else [now, most or 0]


def _setting(
    cause: str,
    field: str,
    shows: Callable[[Gpu], Shown | None],
    says: str,
    *,
    severity: Severity,
    slows: tuple[Activity, ...],
    well: str,
    advice: str | None = None,
    fix: Sequence[str] = (),
    counts: bool = False,
) -> Cause:
    """A row of a setting of each GPU.

    shows: the values that ``says`` has room for, or None where it is as it should be; GPUs of the same values are one
    finding. counts: whether the field is a number that grows with time.
    """

    def here(place: Place) -> Iterator[Finding]:
        devices: dict[tuple[str | float, ...], list[str]] = {}
        for index, gpu in enumerate(place.gpus):
            if (shown := shows(gpu)) is not None:
                devices.setdefault(tuple(shown), []).append(str(nth_gpu(index)))
        for values, named in devices.items():
            yield Finding(
                severity=severity,
                summary=f"{listed(named)}: {says.format(*values)}",
                values=[*named, *([] if counts else values)],
                reading=float(values[0]) if counts else None,
                evidence=[f"NVML, {field}"],
                advice=advice,
                fix=list(fix),
            )

    here.__doc__ = well
    return Cause(cause, slows=slows, reads=(FactId("devices", "gpus", field),), here=here)


def mps(place: Place) -> Iterator[Finding]:
    """Whether work goes through a multi-process service, which others may use, too."""
    if place.devices.mps_of_another:  # NVIDIA/nvidia-docker#1543
        yield Finding(
            severity="problem",
            summary="the multi-process service here is another user's and serves that one alone: CUDA fails or hangs",
            about=[FactId("devices", "mps_of_another")],
            evidence=["the owner of its control pipe is neither root nor this user"],
            distorts=["start-up", "launch", "kernel"],
            advice=place.advice(
                "run as the user who started it, or set CUDA_MPS_PIPE_DIRECTORY to an empty folder",
                engine="--user of whoever started the service",
            ),
        )
        return
    shared = [str(nth_gpu(index)) for index, gpu in enumerate(place.gpus) if gpu.mps]
    if place.devices.mps_control or shared:
        yield Finding(
            summary="a multi-process service is at work here: kernels of several programs run side by side on a GPU",
            evidence=(["its control pipe can be reached"] if place.devices.mps_control else [])
            + ([f"NVML lists its clients on {listed(shared)}"] if shared else []),
            advice="compare only with places that have it, too: a program that cannot reach the pipe silently runs "
            "without; to measure without it, set CUDA_MPS_PIPE_DIRECTORY to an empty folder",
        )


CAUSES = (
    _setting("persistence", "persistence", lambda gpu: _is(gpu.persistence is False),
             "persistence mode is off: the first program waits for the driver to set the GPU up, for seconds",
             severity="warning", slows=("start-up",),
             well="Whether the driver keeps each GPU set up while no program uses it.",
             advice="on the host, as root, let nvidia-persistenced run", fix=["nvidia-smi -pm 1"]),
    _setting("ecc", "ecc", lambda gpu: _is(gpu.ecc is False),
             "ECC is off: memory may be larger and faster than with it, and an error goes unseen", severity="note",
             slows=("kernel",), well="Whether the memory of each GPU corrects errors."),
    _setting("ecc-errors", "ecc_errors_uncorrected",
             lambda gpu: [gpu.ecc_errors_uncorrected] if gpu.ecc_errors_uncorrected else None,
             "{} memory errors that could not be corrected, since the driver was loaded", severity="problem",
             slows=("kernel",), well="Whether all errors of the memory of each GPU could be corrected.",
             advice="let the GPU be reset and tested (dcgmi diag -r 3) before its results are believed", counts=True),
    _setting("repair-pending", "repair_pending", lambda gpu: _is(gpu.repair_pending),
             "faulty memory waits for a reset to be taken out of use", severity="warning", slows=("kernel",),
             well="Whether no faulty memory waits for a reset.", advice="drain the machine and let the GPU be reset"),
    _setting("mig", "mig", lambda gpu: _is(gpu.mig),
             "MIG is on: what is measured is a slice, with its part of processors, cache and bandwidth",
             severity="warning", slows=("kernel", "copy", "collective"),
             well="Whether each GPU is a whole one, and no slice of one.",
             advice="compare only with slices of the same profile"),
    _setting("vgpu", "virtualization_mode", lambda gpu: _is("vgpu" in (gpu.virtualization_mode or "").lower()),
             "this is a virtual GPU: the host shares the board's time among machines", severity="warning",
             slows=("launch", "kernel", "copy"), well="Whether this machine has the time of each GPU alone.",
             advice="compare only with virtual GPUs of the same kind; ask for a whole board where it matters"),
    _setting("confidential-computing", "confidential_computing", lambda gpu: _is(gpu.confidential_computing),
             "confidential computing is on: copies go through encrypted buffers, and memory cannot be registered",
             severity="warning", slows=("copy", "launch", "collective"), well="Whether copies go without encryption.",
             advice="compare only with machines that have it on, too"),
    _setting("power-limit", "power_limit_w", _power_limit, "its power is limited to {} W, of {} W by default",
             severity="warning", slows=("kernel",), well="Whether each GPU may take as much power as by default.",
             advice="on the host, as root, set the default limit again (nvidia-smi -q -d POWER tells it), or compare "
             "at one limit"),
    _setting("application-clock", "sm_clock_application_hz", _application_clock,
             "its clock is set to {} of the highest: the board's default, or a choice", severity="note",
             slows=("kernel", "launch"), well="Whether each GPU may run at its highest clock."),
    _setting("compute-mode", "compute_mode", lambda gpu: _is(gpu.compute_mode == "prohibited"),
             "its compute mode is 'prohibited': CUDA cannot use it", severity="problem", slows=("start-up",),
             well="Whether CUDA may use each GPU.", advice="on the host, as root, allow it",
             fix=["nvidia-smi -c DEFAULT"]),
    _setting("exclusive-mode", "compute_mode", lambda gpu: _is((gpu.compute_mode or "").startswith("exclusive")),
             "one process at a time may use it: a second one, such as that of a trace, is refused", severity="note",
             slows=("start-up",), well="Whether several processes may use each GPU."),
    _setting("pcie-width", "pcie_width", lambda gpu: _less(gpu.pcie_width, gpu.pcie_width_max),
             "its PCIe link has {} of {} lanes, and is no wider under load", severity="problem", slows=("copy",),
             well="Whether the PCIe link of each GPU has all its lanes.", advice="see to the slot, riser or "
             "bifurcation setting: lspci -vv shows LnkCap and LnkSta of every bridge on the way"),
    _setting("pcie-generation", "pcie_generation", lambda gpu: _less(gpu.pcie_generation, gpu.pcie_generation_max),
             "its PCIe link is at generation {} of {} now: idle links slow down, so only a copy tells whether it stays "
             "there", severity="note", slows=("copy",),
             well="Whether the PCIe link of each GPU is at its highest generation.",
             advice="primbench memcpy tells what it reaches"),
    _setting("pcie-replays", "pcie_replays", lambda gpu: [gpu.pcie_replays] if gpu.pcie_replays else None,
             "{} packets were sent again over its PCIe link since the driver was loaded", severity="note",
             slows=("copy",), well="Whether each PCIe link carries packets without an error.",
             advice="where the number grows during copies, the link is at fault", counts=True),
    Cause("mps", title="another way to share the GPU", slows=("launch", "kernel"), upstream=4, severity="problem",
          effect="with a multi-process service on one side only, programs share a GPU there and take turns on the "
          "other",
          reads=of("devices", "mps_control"), here=mps),
)  # fmt: skip
