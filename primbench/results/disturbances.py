"""What disturbed a case, by evidence from outside of its times. Nothing is deleted: results say it beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.results.cpu_speed import speed
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.measurement import Measurement, Samples
    from primbench.measurement.readings import DataReading, GpuProcess, GpuReading, HostReading, Pages

# A quiet machine shows 1 %. One who waits for 5 % of the time gets means that are as much too long, which is the
# least difference between two places that is called one.
WAITED_FRACTION = 0.05
# Of CPU time. Two programs that share a CPU take turns every 3 to 10 ms; a quiet machine has ten a second.
SWITCHES_PER_S = 100
FEWEST_SWITCHES = 10
SLOWED_FRACTION = 0.25  # share of samples from which on their median moves
# The user's settings and the limits of power and voltage that a GPU at work runs into; the table names them on its own.
ORDINARY_REASONS = frozenset(
    (
        "none",
        "gpu idle",
        "sw power cap",
        "reliability",
        "applications clocks setting",
        "user defined clocks",
        "display clock setting",
    )
)
ORDINARY_POLICY = "power"


def disturbances(measurement: Measurement) -> list[str]:
    """What disturbed a case, a sentence each; none for what could not be seen, nor where nothing was timed."""
    if measurement.main is None:
        return []
    return [
        *(_of_host(measurement.host) if measurement.host else ()),
        *_of_cpu(measurement.batch_s or measurement.enqueue_s, "" if measurement.batch_s else " of enqueue"),
        *_beside_the_host(measurement),
    ]


def disturbs_main(measurement: Measurement) -> bool:
    """Whether any of it can have made the main metric longer: in the GPU's own time the host has no part."""
    is_own = measurement.main is not None and measurement.main is measurement.device_s
    return any(_beside_the_host(measurement) if is_own else disturbances(measurement))


def _beside_the_host(measurement: Measurement) -> list[str]:
    return [
        *(_of_gpu(measurement.gpu) if measurement.gpu else ()),
        *(_of_pages(measurement.pages) if measurement.pages else ()),
        *(_of_data(measurement.data) if measurement.data else ()),
    ]


def _of_host(host: HostReading) -> Iterator[str]:
    """The cause; what only follows from it is left out: who is held back waits, and who waits has been taken off."""
    if host.slow_cpus:
        yield f"it ran on CPUs {format_cpu_list(host.slow_cpus)}, of a slower kind than others that it may run on"
    if host.throttled_s:
        yield f"the CPU quota held it back for {format_time(host.throttled_s)} of {format_time(host.duration_s)}"
        if host.throttled_s > WAITED_FRACTION * host.duration_s:
            return
    # Pressure is that of the whole machine: other CPUs than ours may be meant.
    waited_s = host.cpu_pressure_some_s if host.waited_s is None else host.waited_s
    if waited_s is not None and waited_s > WAITED_FRACTION * host.duration_s:
        who = "tasks of this machine" if host.waited_s is None else "it"
        yield f"{who} waited for a CPU during {format_percent(host.share(waited_s))} of its time"
        return
    switches = host.involuntary_switches
    if switches >= FEWEST_SWITCHES and switches > SWITCHES_PER_S * host.cpu_time_s:
        yield f"it was taken off its CPU {switches} times in {format_time(host.cpu_time_s)} of CPU time"


def _of_cpu(samples: Samples | None, of: str) -> Iterator[str]:
    """How often the CPU was slow, against the quickest loop of these samples: one always slow is not noticed."""
    found = speed([loop_s for _, loop_s in samples.loops_s]) if samples else None
    if found and found.slowed_fraction > SLOWED_FRACTION:
        slowed = format_percent(found.slowed_fraction)
        yield f"its CPU was slow beside {slowed} of its samples{of}: a shared core, or its clock"


def _of_gpu(gpu: GpuReading) -> Iterator[str]:
    for process in gpu.foreign_processes or ():
        yield _held_by(process)
    yield from _of_gpu_clocks(gpu)
    if gpu.pcie_replays:
        yield f"PCIe replays: {gpu.pcie_replays}"
    if gpu.ecc_errors_uncorrected:
        yield f"uncorrected ECC errors: {gpu.ecc_errors_uncorrected}"


def _of_gpu_clocks(gpu: GpuReading) -> Iterator[str]:
    reasons = [reason for reason in gpu.clocks_event_reasons or () if reason not in ORDINARY_REASONS]
    if reasons:
        yield f"clocks held back by: {', '.join(reasons)}"
    for policy, held_s in (gpu.held_back_s or {}).items():
        if held_s > 0 and policy != ORDINARY_POLICY:
            yield f"clocks held back for {format_time(held_s)} by policy: {policy}"


def _held_by(process: GpuProcess) -> str:
    memory = "" if process.memory_bytes is None else f", with {format_bytes(process.memory_bytes)} of its memory"
    who = f"pid {process.pid}" if process.pid else "a process of another PID namespace"
    return f"{who} held the GPU, too{memory}"


def _of_pages(pages: Pages) -> Iterator[str]:
    if not pages.misplaced:
        return
    all_pages = sum(pages.by_node.values())
    elsewhere = {node: count for node, count in sorted(pages.by_node.items()) if node not in pages.asked and count}
    if not elsewhere:
        asked = format_cpu_list(pages.asked)
        if len(pages.asked) == 1:
            yield f"its pages were not all on node {asked}, asked for, before it was timed"
        else:  # or the source is where the destination was to be
            yield f"its pages were not each on the one of nodes {asked} that was asked for"
        return
    shares = ", ".join(f"{format_percent(count / all_pages)} on node {node}" for node, count in elsewhere.items())
    yield f"of its pages {shares}, asked for {format_cpu_list(pages.asked)}"


def _of_data(data: DataReading) -> Iterator[str]:
    if data.bad_examples:
        count = f"{data.bad_examples} of {data.examples}"
        yield f"others stood in for {count} examples, which are bad, such as {data.bad[0]}"
