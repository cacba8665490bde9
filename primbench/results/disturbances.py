"""What disturbed a case, by evidence from outside of its times. Nothing is deleted: results say it beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench.measurement.readings import LEAST_OTHERS_S
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.measurement import Measurement
    from primbench.measurement.readings import DataReading, GpuProcess, GpuReading, HostReading, Pages

# A quiet machine shows 1 %. One who waits for 5 % of the time gets means that are as much too long, which is the
# least difference between two places that is called one.
WAITED_FRACTION = 0.05
# Of CPU time. Two programs that share a CPU take turns every 3 to 10 ms; a quiet machine has ten a second.
SWITCHES_PER_S = 100
FEWEST_SWITCHES = 10
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


class Disturbance(NamedTuple):
    """What disturbed a case."""

    kind: str
    """Id of what it is."""
    words: str
    """It in words, with its amount."""
    amount: float = 0.0
    """How bad it is: more is worse, among those of a kind."""


def disturbances(measurement: Measurement) -> list[Disturbance]:
    """What disturbed a case; none for what could not be seen, nor where nothing was timed."""
    if measurement.main is None:
        return []
    host = measurement.host
    return [
        *(_of_host(host, measurement) if host and host.duration_s else ()),  # no time went by: there is no share
        *_beside_the_host(measurement),
    ]


def disturbs_main(measurement: Measurement) -> bool:
    """Whether any of it can have made the main metric longer: in the GPU's own time the host has no part."""
    is_own = measurement.main is not None and measurement.main is measurement.device_s
    return any(_beside_the_host(measurement) if is_own else disturbances(measurement))


def _beside_the_host(measurement: Measurement) -> list[Disturbance]:
    return [
        *(_of_gpu(measurement.gpu) if measurement.gpu else ()),
        *(_of_pages(measurement.pages) if measurement.pages else ()),
        *(_of_data(measurement.data) if measurement.data else ()),
    ]


def _of_host(host: HostReading, measurement: Measurement) -> Iterator[Disturbance]:
    """The cause; what only follows from it is left out: who is held back waits, and who waits has been taken off."""
    if host.slow_cpus:
        cpus = format_cpu_list(host.slow_cpus)
        yield Disturbance("slow-cpus", f"it ran on CPUs {cpus}, of a slower kind than others that it may run on")
    if host.throttled_s:
        words = f"the CPU quota held it back for {format_time(host.throttled_s)} of {format_time(host.duration_s)}"
        yield Disturbance("quota", words, host.throttled_s / host.duration_s)
        if host.throttled_s > WAITED_FRACTION * host.duration_s:
            return
    yield from _of_busy_cpus(host, measurement)


def _of_busy_cpus(host: HostReading, measurement: Measurement) -> Iterator[Disturbance]:
    # Pressure is that of the whole machine: other CPUs than ours may be meant.
    waited_s = (host.cpu_pressure_some_s if host.waited_s is None else host.waited_s) or 0.0
    is_waiting = waited_s > WAITED_FRACTION * host.duration_s
    busy = [*(_of_waiting(host, waited_s) if is_waiting else ()), *_of_others(host, measurement)]
    if busy:
        yield Disturbance("busy-cpus", ", and ".join(words for words, _ in busy), sum(share for _, share in busy))
    elif not is_waiting:
        yield from _of_switches(host)


def _of_switches(host: HostReading) -> Iterator[Disturbance]:
    switches = host.involuntary_switches
    if switches >= FEWEST_SWITCHES and switches > SWITCHES_PER_S * host.cpu_time_s:
        words = f"it was taken off its CPU {switches} times in {format_time(host.cpu_time_s)} of CPU time"
        yield Disturbance("switches", words, switches)


def _of_waiting(host: HostReading, waited_s: float) -> Iterator[tuple[str, float]]:
    """In words and as a share of the time.

    None where nobody else ran for half as long: its own threads were in its way. Ticks err by less.
    """
    if host.others_s is None or host.others_s + (host.stolen_s or 0.0) >= waited_s / 2:
        who, share = "tasks of this machine" if host.waited_s is None else "it", host.share(waited_s) or 0.0
        yield f"{who} waited for a CPU during {format_percent(share)} of its time", share


def _of_others(host: HostReading, measurement: Measurement) -> Iterator[tuple[str, float]]:
    """The same of what had its CPUs, but for a neighbour that was asked for, and of the hypervisor."""
    if host.others_s is None or host.stolen_s is None or host.cpus is None or measurement.neighbour:
        return
    there_s = host.cpus * host.duration_s
    if host.is_beside_others:
        busy = f"{host.others_s / host.duration_s:.1f} of its {host.cpus} CPU{'s' * (host.cpus > 1)}"
        names = f", the busiest: {', '.join(each.name for each in host.others)}" if host.others else ""
        yield f"other programs kept {busy} busy{names}", host.others_s / there_s
    asked_s = host.stolen_s + host.others_s + host.cpu_time_s
    if host.stolen_s > max(LEAST_OTHERS_S, WAITED_FRACTION * asked_s):
        share = host.stolen_s / asked_s
        yield f"the hypervisor took its CPUs for {format_percent(share)} of the time that they had work", share


def _of_gpu(gpu: GpuReading) -> Iterator[Disturbance]:
    for process in gpu.foreign_processes or ():
        yield Disturbance(f"gpu-process {process.pid}", _held_by(process), process.memory_bytes or 0)
    yield from _of_gpu_clocks(gpu)
    if gpu.pcie_replays:
        yield Disturbance("pcie-replays", f"PCIe replays: {gpu.pcie_replays}", gpu.pcie_replays)
    if gpu.ecc_errors_uncorrected:
        words = f"uncorrected ECC errors: {gpu.ecc_errors_uncorrected}"
        yield Disturbance("ecc-errors", words, gpu.ecc_errors_uncorrected)


def _of_gpu_clocks(gpu: GpuReading) -> Iterator[Disturbance]:
    reasons = [reason for reason in gpu.clocks_event_reasons or [] if reason not in ORDINARY_REASONS]
    if reasons:
        yield Disturbance(f"clocks {reasons}", f"clocks held back by: {', '.join(reasons)}")
    for policy, held_s in (gpu.held_back_s or {}).items():
        if held_s > 0 and policy != ORDINARY_POLICY:
            words = f"clocks held back for {format_time(held_s)} by policy: {policy}"
            yield Disturbance(f"policy {policy}", words, held_s)


def _held_by(process: GpuProcess) -> str:
    memory = "" if process.memory_bytes is None else f", with {format_bytes(process.memory_bytes)} of its memory"
    who = f"pid {process.pid}" if process.pid else "a process of another PID namespace"
    return f"{who} held the GPU, too{memory}"


def _of_pages(pages: Pages) -> Iterator[Disturbance]:
    if not pages.misplaced:
        return
    all_pages = sum(pages.by_node.values())
    elsewhere = {node: count for node, count in sorted(pages.by_node.items()) if node not in pages.asked and count}
    asked = format_cpu_list(pages.asked)
    shares = ", ".join(f"{format_percent(count / all_pages)} on node {node}" for node, count in elsewhere.items())
    if elsewhere:
        yield Disturbance(f"pages {asked}", f"of its pages {shares}, asked for {asked}", sum(elsewhere.values()))
    elif len(pages.asked) == 1:
        yield Disturbance(f"pages {asked}", f"its pages were not all on node {asked}, asked for, before it was timed")
    else:  # or the source is where the destination was to be
        yield Disturbance(f"pages {asked}", f"its pages were not each on the one of nodes {asked} that was asked for")


def _of_data(data: DataReading) -> Iterator[Disturbance]:
    if data.bad_examples:
        count = f"{data.bad_examples} of {data.examples}"
        words = f"others stood in for {count} examples, which are bad, such as {data.bad[0]}"
        yield Disturbance("bad-examples", words, data.bad_examples)
