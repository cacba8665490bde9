"""The same causes of GPUs: clocks held down, others on them, and kernels that wait for copies or for launches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.causes import _job_studies as studies
from primbench.doctor.cause import Hindrance
from primbench.doctor.job import IN_TURN
from primbench.units import format_bytes, format_frequency, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.job import GpuUse, Job, Stretch, ThreadUse

HELD_DOWN = re.compile(r".*(slowdown|power cap|power brake|sync boost).*")  # by NVML's names of reasons
OFTEN = 0.2  # of the looks
BUSY = 0.9  # of the time
LEAST_COPIED = 0.03  # of what the link carries; launches by themselves take less
FEW_COPIED_BYTES_PER_S = 1e9  # the same of a link that is not known
NEAR_THE_LINK = 0.5  # of what it carries: pageable copies stay below, as they go through the driver's own buffer
FEW_SMS = 0.3  # of their time; kernels that fill the GPU have more
MANY_LAUNCHES_PER_S = 2e4  # which take a thread of Python most of its time
SHARED_SHARE = 0.5  # of the time at most, where two take turns; NVML does not tell


def clocks_held_down(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    for gpu in whole.gpus or []:
        reasons = {reason: share for reason, share in (gpu.held_by or {}).items() if HELD_DOWN.fullmatch(reason)}
        if max(reasons.values(), default=0.0) < OFTEN or not (gpu.sm_clock_hz and gpu.sm_clock_max_hz):
            continue
        words = ", ".join(f"{reason} in {format_percent(share)} of the looks" for reason, share in reasons.items())
        yield Hindrance(
            share=max(0.0, 1 - gpu.sm_clock_hz / gpu.sm_clock_max_hz),
            summary=f"clocks of the GPU are held down: {words}",
            evidence=[
                f"NVML, {_named(gpu)}: {format_frequency(gpu.sm_clock_hz)} of {format_frequency(gpu.sm_clock_max_hz)}",
                f"power {_number(gpu.power_w)} W, {_number(gpu.temperature_c)} C",
            ],
            effect=f"kernels take up to {gpu.sm_clock_max_hz / gpu.sm_clock_hz:.2f} times as long",
        )


def others_on_gpus(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    for gpu in whole.gpus or []:
        if gpu.others:
            listed = ", ".join(f"process {each.pid} with {format_bytes(each.memory_bytes)}" for each in gpu.others)
            yield Hindrance(
                share=SHARED_SHARE * (gpu.busy_fraction or 0.0),
                summary=f"others hold its GPU, too: {listed}",
                evidence=[f"NVML, {_named(gpu)}: busy {format_percent(gpu.busy_fraction)} of the time, whoever with"],
                effect="kernels and copies take turns: up to twice as long beside one that is as busy",
                study=studies.of_neighbours(job),
            )


def waits_for_copies(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    for gpu in whole.gpus or []:
        if (rate := _copied(gpu)) is None:
            continue
        bytes_per_s, way = rate
        busy, link = gpu.busy_fraction, gpu.pcie_link_bytes_per_s
        if busy is None or busy > BUSY:
            continue
        while_idle = bytes_per_s / (1 - busy)  # at most, if no copy goes on beside a kernel
        is_pageable = link is not None and while_idle < NEAR_THE_LINK * link
        slow = ", as pageable memory's are, which the driver copies once more" if is_pageable else ""
        yield Hindrance(
            share=1 - busy,
            summary=f"GPU idle {format_percent(1 - busy)} of the time, while {_rate(bytes_per_s)} are copied {way} "
            f"it{slow}",
            evidence=[
                f"{_counters(gpu)}, PCIe: {_rate(bytes_per_s)}, {_rate(while_idle)} if only while it is idle, of "
                f"{_rate(link)} that its link carries",
                *_shares(gpu),
            ],
            effect=_faster_copies(while_idle, link)
            if is_pageable
            else "copies beside kernels (streams) would hide them",
            study=studies.of_node(job, "--primitive memcpy"),
        )


def waits_for_launches(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """Of processes that hold the GPU: what loads data in others is no launch."""
    for gpu in whole.gpus or []:
        threads = [each for each in whole.threads if each.process in gpu.own][:IN_TURN]
        idle = _idle_between_launches(gpu, whole)
        if idle is None or sum(each.wanted_s for each in threads) < BUSY * whole.duration_s:
            continue
        rate = whole.launches_per_s
        yield Hindrance(
            share=idle,
            summary=f"GPU idle {format_percent(idle)} of the time, while threads have a whole CPU: it waits for what "
            "these do, such as launches",
            evidence=[
                f"NVML, {_named(gpu)}: some kernel ran in {format_percent(gpu.busy_fraction)} of the time",
                *_shares(gpu),
                *([f"uprobes: {rate:,.0f} launches a second"] if rate is not None else []),
                *(_wanted(each, whole) for each in threads),
            ],
            effect="what makes a launch dearer makes the whole step longer; a CUDA graph of it would be one launch",
            study=studies.of_node(job, "--primitive launch"),
        )


def _named(gpu: GpuUse) -> str:
    return f"{gpu.name or 'GPU'} ({gpu.uuid})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _copied(gpu: GpuUse) -> tuple[float, str] | None:
    """Bytes a second the way on which more goes, and which way, where that is much for the link."""
    received, sent = gpu.pcie_received_bytes_per_s or 0.0, gpu.pcie_sent_bytes_per_s or 0.0
    link = gpu.pcie_link_bytes_per_s
    least = FEW_COPIED_BYTES_PER_S if link is None else LEAST_COPIED * link
    return max((received, "to"), (sent, "from")) if max(received, sent) >= least else None


def _faster_copies(bytes_per_s: float, link: float | None) -> str:
    times = f" up to {link / bytes_per_s:.1f} times as fast" if link is not None and bytes_per_s else " faster"
    return (
        f"from pinned memory they are{times}, and can go beside kernels: `primbench memcpy --memory pinned --memory "
        "pageable` times both"
    )


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{format_bytes(round(bytes_per_s))}/s"


def _counters(gpu: GpuUse) -> str:
    return f"{'NVML' if gpu.sm_active_fraction is None else 'GPM'}, {_named(gpu)}"


def _shares(gpu: GpuUse) -> list[str]:
    if gpu.sm_active_fraction is None:
        return []
    return [f"GPM: SMs at work {format_percent(gpu.sm_active_fraction)} of their time"]


def _wanted(thread: ThreadUse, whole: Stretch) -> str:
    share = format_percent(thread.wanted_s / whole.duration_s)
    return f"schedstat of thread {thread.number} ({thread.name or 'unnamed'}): {share} of the time"


def _idle_between_launches(gpu: GpuUse, whole: Stretch) -> float | None:
    """None where it waits for copies, or not at all.

    NVML takes a GPU for busy in which tiny kernels follow one another; what SMs do tells, where they are many.
    """
    busy, active = gpu.busy_fraction, gpu.sm_active_fraction
    if _copied(gpu) is not None:
        return None
    if busy is not None and busy <= BUSY:
        return 1 - busy
    are_many = (whole.launches_per_s or 0.0) >= MANY_LAUNCHES_PER_S
    return 1 - active if are_many and active is not None and active <= FEW_SMS else None
