"""The same causes of GPUs: clocks held down, others on them, and kernels that wait for launches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.units import format_bytes, format_frequency, format_percent
from primbench.watching import studies
from primbench.watching.hindrance import Hindrance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.watching.gpus import GpuUse
    from primbench.watching.job import Job
    from primbench.watching.stretch import Stretch

HELD_DOWN = re.compile(r".*(slowdown|power cap|power brake|sync boost).*")  # by NVML's names of reasons
OFTEN = 0.2  # of the looks
BUSY = 0.9  # of the time
SHARED_SHARE = 0.5  # of the time at most, where two take turns; NVML does not tell


def on_gpus(whole: Stretch, job: Job, *, cpu_is_held_back: bool) -> Iterator[Hindrance]:
    """cpu_is_held_back: whether that is why a GPU waits, so that it is told already."""
    for gpu in whole.gpus or []:
        yield from _clocks(gpu)
        yield from _others(gpu, job)
        if not cpu_is_held_back:
            yield from _waits_for_launches(gpu, whole, job)


def _named(gpu: GpuUse) -> str:
    return f"{gpu.name or 'GPU'} ({gpu.uuid})"


def _clocks(gpu: GpuUse) -> Iterator[Hindrance]:
    reasons = {reason: share for reason, share in (gpu.held_by or {}).items() if HELD_DOWN.fullmatch(reason)}
    if max(reasons.values(), default=0.0) < OFTEN or not (gpu.sm_clock_hz and gpu.sm_clock_max_hz):
        return
    words = ", ".join(f"{reason} in {format_percent(share)} of the looks" for reason, share in reasons.items())
    yield Hindrance(
        cause="gpu-clocks",
        share=max(0.0, 1 - gpu.sm_clock_hz / gpu.sm_clock_max_hz),
        summary=f"clocks of the GPU are held down: {words}",
        evidence=[
            f"NVML, {_named(gpu)}: {format_frequency(gpu.sm_clock_hz)} of {format_frequency(gpu.sm_clock_max_hz)}",
            f"power {_number(gpu.power_w)} W, {_number(gpu.temperature_c)} C",
        ],
        distorts=["kernel"],
        effect=f"kernels take up to {gpu.sm_clock_max_hz / gpu.sm_clock_hz:.2f} times as long",
        study=None,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _others(gpu: GpuUse, job: Job) -> Iterator[Hindrance]:
    if gpu.others:
        listed = ", ".join(f"process {each.pid} with {format_bytes(each.memory_bytes)}" for each in gpu.others)
        yield Hindrance(
            cause="gpu-processes",
            share=SHARED_SHARE * (gpu.busy_fraction or 0.0),
            summary=f"others hold its GPU, too: {listed}",
            evidence=[f"NVML, {_named(gpu)}: busy {format_percent(gpu.busy_fraction)} of the time, whoever with"],
            distorts=["kernel", "copy", "launch"],
            effect="kernels and copies take turns: up to twice as long beside one that is as busy",
            study=studies.of_neighbours(job),
        )


def _waits_for_launches(gpu: GpuUse, whole: Stretch, job: Job) -> Iterator[Hindrance]:
    thread = whole.busiest
    busy = gpu.busy_fraction
    if thread is None or busy is None or busy > BUSY or thread.wanted_s < BUSY * whole.duration_s:
        return
    yield Hindrance(
        cause="launches",
        share=1 - busy,
        summary=f"the GPU is busy {format_percent(busy)} of the time, while one thread has a whole CPU: it waits for "
        "what that thread does, such as launches",
        evidence=[
            f"NVML, {_named(gpu)}: utilisation",
            f"schedstat of thread {thread.number} ({thread.name or 'unnamed'}): "
            f"{format_percent(thread.wanted_s / whole.duration_s)} of the time",
        ],
        distorts=["launch"],
        effect="what makes a launch dearer makes the whole step longer",
        study=studies.of_launches(job),
    )
