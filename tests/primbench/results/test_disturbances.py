"""What counts as a disturbance, and in which words."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import (
    DataReading,
    GpuProcess,
    GpuReading,
    HostReading,
    NeighbourProcess,
    NeighbourReading,
    Pages,
)
from primbench.results.disturbances import ORDINARY_REASONS, disturbances

TIMES = Samples(samples_s=[1e-3] * 7, calls_per_sample=1, taken_by="host clock", stopped="count")


def host(**fields: Any) -> Measurement:
    quiet = {"duration_s": 0.8, "cpu_time_s": 0.8, "voluntary_switches": 2, "involuntary_switches": 3}
    counters = {"cpu_pressure_some_s": 0.01, "waited_s": 0.008, "throttled_s": 0.0}
    return Measurement(batch_s=TIMES, host=HostReading(**quiet | counters | fields))


def gpu(**fields: Any) -> Measurement:
    quiet: dict[str, Any] = {
        "clocks_event_reasons": [],
        "foreign_processes": [],
        "held_back_s": {"power": 0.5, "thermal": 0.0},
        "pcie_replays": 0,
        "ecc_errors_uncorrected": 0,
    }
    return Measurement(device_s=TIMES, gpu=GpuReading(**quiet | fields))


def pages(by_node: dict[int, int], asked: list[int], *, misplaced: bool) -> Measurement:
    found = Pages(by_node=by_node, asked=asked, misplaced=misplaced, read_by="move_pages")
    return Measurement(batch_s=TIMES, pages=found)


def data(bad_examples: int, bad: list[str]) -> Measurement:
    found = DataReading(examples=8, read_bytes=100.0, cached_fraction=1.0, bad_examples=bad_examples, bad=bad)
    return Measurement(batch_s=TIMES, data=found)


def told(measurement: Measurement) -> list[str]:
    return [each.words for each in disturbances(measurement)]


GIB = 2**30
DISTURBED: dict[str, tuple[Measurement, list[str]]] = {
    "quota": (host(throttled_s=0.31), ["the CPU quota held it back for 310 ms of 800 ms"]),
    "waiting": (host(waited_s=0.28), ["it waited for a CPU during 35.0% of its time"]),
    "slower kind of CPU": (
        host(slow_cpus=[16, 17]),
        ["it ran on CPUs 16-17, of a slower kind than others that it may run on"],
    ),
    "waiting of the machine, own unknown": (
        host(waited_s=None, cpu_pressure_some_s=0.28),
        ["tasks of this machine waited for a CPU during 35.0% of its time"],
    ),
    "more pressure than time": (
        host(waited_s=None, cpu_pressure_some_s=0.95),
        ["tasks of this machine waited for a CPU during 100.0% of its time"],
    ),
    "other programs": (
        host(others_s=3.2, stolen_s=0.0, cpus=8),
        ["other programs kept 4.0 of its 8 CPUs busy"],
    ),
    "other programs with names": (
        host(others_s=3.2, stolen_s=0.0, cpus=8, others=[NeighbourProcess(pid=7, name="7 (make)", cpu_time_s=3.0)]),
        ["other programs kept 4.0 of its 8 CPUs busy, the busiest: 7 (make)"],
    ),
    "waiting for others": (
        host(waited_s=0.28, others_s=0.14, stolen_s=0.0, cpus=1),
        ["it waited for a CPU during 35.0% of its time, and other programs kept 0.2 of its 1 CPU busy"],
    ),
    "hypervisor": (
        host(others_s=0.0, stolen_s=0.2, cpus=8),
        ["the hypervisor took its CPUs for 20.0% of the time that they had work"],
    ),
    "switches": (
        host(involuntary_switches=240),
        ["it was taken off its CPU 240 times in 800 ms of CPU time"],
    ),
    "foreign process": (
        gpu(foreign_processes=[GpuProcess(pid=4711, memory_bytes=3 * GIB), GpuProcess(pid=4712)]),
        ["pid 4711 held the GPU, too, with 3 GiB of its memory", "pid 4712 held the GPU, too"],
    ),
    "foreign process without a number": (
        gpu(foreign_processes=[GpuProcess(pid=0)]),
        ["a process of another PID namespace held the GPU, too"],
    ),
    "clocks": (
        gpu(clocks_event_reasons=["sw power cap", "hw slowdown", "sw thermal slowdown"]),
        ["clocks held back by: hw slowdown, sw thermal slowdown"],
    ),
    "clocks, by a reason newer than the names": (
        gpu(clocks_event_reasons=["reason 0x100000"]),
        ["clocks held back by: reason 0x100000"],
    ),
    "clocks, by their counter": (
        gpu(held_back_s={"power": 0.5, "thermal": 0.012}),
        ["clocks held back for 12.0 ms by policy: thermal"],
    ),
    "PCIe": (gpu(pcie_replays=12), ["PCIe replays: 12"]),
    "ECC": (gpu(ecc_errors_uncorrected=1), ["uncorrected ECC errors: 1"]),
    "bad data": (
        data(2, ["dogs/2.jpg: it is no image", "dogs/3.jpg: it is no image"]),
        ["others stood in for 2 of 8 examples, which are bad, such as dogs/2.jpg: it is no image"],
    ),
    "good data": (data(0, []), []),
    "pages": (
        pages({0: 60, 1: 40}, [0], misplaced=True),
        ["of its pages 40.0% on node 1, asked for 0"],
    ),
    "pages on several nodes": (
        pages({0: 25, 2: 50, 8: 25}, [0, 1], misplaced=True),
        ["of its pages 50.0% on node 2, 25.0% on node 8, asked for 0-1"],
    ),
    "pages that came home late": (
        pages({0: 100}, [0], misplaced=True),
        ["its pages were not all on node 0, asked for, before it was timed"],
    ),
    "pages of two buffers, each where the other was to be": (
        pages({0: 50, 1: 50}, [0, 1], misplaced=True),
        ["its pages were not each on the one of nodes 0-1 that was asked for"],
    ),
}


@pytest.mark.parametrize("name", DISTURBED)
def test_each_is_told_alone_and_in_numbers(name: str) -> None:
    measurement, expected = DISTURBED[name]
    assert expected == told(measurement)


QUIET: dict[str, Measurement] = {
    "host": host(),
    "GPU at its power limit": gpu(clocks_event_reasons=["sw power cap"]),
    "GPU idle, clocks set by the user": gpu(clocks_event_reasons=["gpu idle", "applications clocks setting"]),
    "pages where they were asked for": pages({0: 995, 1: 5}, [0], misplaced=False),
    "pages that nobody asked for": pages({0: 50, 1: 50}, [], misplaced=False),
    "a busy machine whose tasks wait elsewhere": host(cpu_pressure_some_s=0.7),
    "a CPU that is slow for no reason that is counted": Measurement(
        batch_s=replace(TIMES, loops_s=[(0, 25e-6), (1, 25e-6), (2, 40e-6), (4, 41e-6)])
    ),
    "a hypervisor that takes little of many busy CPUs": host(
        others_s=9.9, stolen_s=0.4, cpus=64, waited_s=0.0, duration_s=4.0
    ),
    "little of other programs": host(others_s=0.3, stolen_s=0.02, cpus=8),
    "waiting for its own threads": host(waited_s=0.28, others_s=0.1, stolen_s=0.02, cpus=4, involuntary_switches=240),
    "other programs for a few ticks": host(others_s=0.09, stolen_s=0.09, cpus=1),
    "a neighbour that was asked for": msgspec.structs.replace(
        host(others_s=3.2, stolen_s=0.0, cpus=8),
        neighbour=NeighbourReading(words="gemm", backend="numpy", device="cpu", calls=9, duration_s=0.8),
    ),
    "few switches in little time": host(cpu_time_s=1e-3, involuntary_switches=9),
    "many switches in much time": host(cpu_time_s=64.0, involuntary_switches=640),
    "nothing that can be seen": Measurement(
        batch_s=TIMES,
        gpu=GpuReading(),
        host=HostReading(duration_s=1.0, cpu_time_s=1.0, voluntary_switches=0, involuntary_switches=0),
    ),
    "nothing timed": msgspec.structs.replace(host(throttled_s=0.31), batch_s=None),
}


@pytest.mark.parametrize("name", QUIET)
def test_the_ordinary_and_the_unknown_are_none(name: str) -> None:
    assert [] == disturbances(QUIET[name])


def test_host_and_gpu_are_told_one_after_the_other() -> None:
    both = msgspec.structs.replace(host(throttled_s=0.31), gpu=gpu(pcie_replays=1).gpu)
    assert ["the CPU quota held it back for 310 ms of 800 ms", "PCIe replays: 1"] == told(both)


def test_what_follows_from_a_cause_is_not_told_beside_it() -> None:
    assert 1 == len(disturbances(host(throttled_s=0.31, waited_s=0.4, involuntary_switches=240)))
    assert 1 == len(disturbances(host(waited_s=0.4, involuntary_switches=240)))
    little = told(host(throttled_s=0.01, waited_s=0.4))
    assert [
        "the CPU quota held it back for 10.0 ms of 800 ms",
        "it waited for a CPU during 50.0% of its time",
    ] == little


def test_ordinary_reasons_are_names_that_nvml_has() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    found = [re.fullmatch(r"nvmlClocks(?:Event|Throttle)Reason([A-Z]\w+)", name) for name in dir(pynvml)]
    words = {re.sub(r"\B(?=[A-Z])", " ", match[1]).lower() for match in found if match}
    assert {"reliability"} >= ORDINARY_REASONS - words  # younger than the oldest nvidia-ml-py that will do
    slower = {"hw slowdown", "hw thermal slowdown", "sw thermal slowdown", "hw power brake slowdown", "sync boost"}
    assert slower <= words - ORDINARY_REASONS <= slower | {"board limit", "all"}


def test_measurement_of_an_older_file_is_not_disturbed_by_what_it_lacks() -> None:
    older = {
        "device_s": msgspec.to_builtins(TIMES),
        "gpu": {"sm_clock_hz": 1.98e9, "clocks_event_reasons": ["sw power cap"], "missing": {}},
        "host": {"duration_s": 1.0, "cpu_time_s": 1.0, "voluntary_switches": 1, "involuntary_switches": 1},
    }
    assert [] == disturbances(msgspec.convert(older, type=Measurement))
