"""What `primbench numa` prints: contradictions first, every cell with what is known of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from primbench.experiments.numa import Affinity, Axes, Cell, Contrast, Matrix, Nearness, NumaLook
from primbench.numa.topology import GpuPlace, Topology
from primbench.report.numa import document, headlines

from .exports import text_of

text = text_of(document)


TOPOLOGY = Topology(gpus=[GpuPlace(device="cuda:0", name="NVIDIA H200")])
COPIES = NumaLook(by="copies", node=0, contrasts=[Contrast(node=1, ratio=1.34, low=1.3, high=1.38)])
LAUNCHES = NumaLook(by="launches", reason="nodes cannot be told apart")
AGREED = Nearness(subject="cuda:0", said={"sysfs": 0, "NVML": None}, looks=[COPIES, LAUNCHES], node=0)
CONTRARY = replace(
    AGREED, subject="cuda:1", said={"sysfs": 1, "NVML": 1},
    disagreement="sysfs says node 1, NVML says node 1, measurement says node 0",
)  # fmt: skip
UNTOLD = Nearness(
    subject="cuda:2", said={"sysfs": 1, "NVML": None}, looks=[LAUNCHES], reason="launches: nodes cannot be told apart"
)
DENIED = "no memory on node 1: mbind: EINVAL"


def cell(cpu_node: int, memory_node: int | None, median_s: float | None, *interval: float, reason: str = "") -> Cell:
    ratio, low, high = interval or (None, None, None)
    return Cell(
        cpu_node=cpu_node,
        memory_node=memory_node,
        times_s={} if median_s is None else dict.fromkeys(range(5), median_s),
        median_s=median_s,
        bytes_per_s=2**20 / median_s if median_s and memory_node is not None else None,
        is_nearest=median_s is not None and not interval,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        reason=reason or None,
    )


def affinity(*matrices: Matrix, nearness: tuple[Nearness, ...] = (), nodes: tuple[int, ...] = (0, 1)) -> Affinity:
    return Affinity(
        axes=Axes(cpu_nodes=list(nodes), memory_nodes=list(nodes)),
        rounds=5,
        seed=0,
        size_bytes=2**20,
        caches_bytes=2**19,
        nearness=list(nearness),
        matrices=list(matrices),
    )


def test_contradictions_are_the_first_lines() -> None:
    ratio = "copies from node 1 take 1.340 [1.300, 1.380] times as long; intervals of 97.5%"
    assert [
        f"cuda:1: sysfs says node 1, NVML says node 1, measurement says node 0 ({ratio})",
        f"cuda:0 is nearest to node 0 by measurement, as sysfs says ({ratio})",
        "cuda:2: launches: nodes cannot be told apart; sysfs says node 1",
    ] == headlines(affinity(nearness=(AGREED, CONTRARY, UNTOLD)))


@pytest.mark.parametrize(
    ("initiators", "words"),
    [
        ([0], "node 2, memory near the CPUs of node 0, by measurement, as sysfs says"),
        ([0, 1], "node 2, memory near the CPUs of nodes 0-1, by measurement, as sysfs says"),
        ([], "node 2 by measurement; sysfs says node 0"),
    ],
)
def test_memory_without_cpus_is_told_with_the_cpus_near_it(initiators: list[int], words: str) -> None:
    found = replace(AGREED, node=2, initiators=initiators, looks=[])
    assert [f"cuda:0 is nearest to {words}"] == headlines(affinity(nearness=(found,)))


def test_one_node_is_said_to_be_one() -> None:
    one = Nearness(subject="cuda:0", said={"sysfs": None, "NVML": 0}, looks=[], reason="copies: one node has times")
    found = affinity(nearness=(one,), nodes=(4,))
    assert ["This process may use one NUMA node, 4: there is none to set it against"] == headlines(found)


def test_a_matrix_has_a_row_a_cpu_node_and_a_column_a_memory_node() -> None:
    cells = [
        cell(0, 0, 2e-5),
        cell(0, 1, None, reason=DENIED),
        cell(1, 0, 2.5e-5, 1.25, 1.2, 1.3),
        cell(1, 1, None, reason=DENIED),
    ]
    shown = text(affinity(Matrix(device="cuda:0", kind="h2d pinned", cells=cells)), TOPOLOGY)
    title, columns, first, second, reason = shown.strip().splitlines()
    assert title.startswith("cuda:0  NVIDIA H200  1 MiB  (median of 5 processes; ratio of the time to the nearest's")
    assert "CPU node memory node 0 memory node 1" == " ".join(columns.split())
    assert "h2d pinned GB/s 0 52.4 nearest -" == " ".join(first.split())
    assert "h2d pinned GB/s 1 41.9 1.250 [1.200, 1.300] -" == " ".join(second.split())
    assert f"CPU node 0, memory node 1; CPU node 1, memory node 1: {DENIED}" == reason


def test_launches_have_cpu_nodes_alone() -> None:
    cells = [cell(0, None, 9e-6), cell(1, None, 9.9e-6, 1.1, 1.05, 1.15)]
    shown = text(affinity(Matrix(device="cuda:0", kind="launch", cells=cells)), TOPOLOGY).strip().splitlines()
    assert ["CPU node round trip", "0 9.00 us nearest", "1 9.90 us 1.100 [1.050, 1.150]"] == [
        " ".join(line.split()) for line in shown[1:]
    ]


def test_a_single_round_shows_ratios_without_intervals() -> None:
    far = replace(cell(0, 1, 4e-8, 1.5, 1.4, 1.6), ratio_low=None, ratio_high=None)
    matrix = Matrix(device="cpu", kind="chase", cells=[cell(0, 0, 3e-8), far])
    once = replace(matrix, cells=[replace(each, times_s={0: each.median_s or 0.0}) for each in matrix.cells])
    shown = text(replace(affinity(once, nodes=(0, 1)), rounds=1), Topology())
    assert shown.startswith("host  1 MiB  (median of 1 process;")
    assert "a load 0 30.0 ns nearest 40.0 ns 1.500" == " ".join(shown.splitlines()[2].split())


def test_what_was_not_measured_is_said_with_the_reason() -> None:
    shown = text(replace(affinity(), missing={"chase": "module 'numba' is not installed"}), Topology())
    assert shown.endswith("chase was not measured: module 'numba' is not installed\n")


def test_a_buffer_that_caches_hold_is_said_to_be_one() -> None:
    found = replace(affinity(Matrix(device="cpu", kind="chase", cells=[cell(0, 0, 3e-8)])), caches_bytes=2**20)
    assert "the last-level caches hold 1 MiB together" in text(found, Topology())
    assert "caches" not in text(replace(found, caches_bytes=2**19), Topology())


def test_processes_are_counted_that_have_a_time() -> None:
    once, twice = ({0: 3e-8}, {0: 3e-8, 1: 3e-8})
    cells = [replace(cell(0, 0, 3e-8), times_s=once), replace(cell(0, 1, 3e-8), times_s=once), cell(1, 0, None)]
    assert "(median of 1 of 5 processes;" in text(affinity(Matrix(device="cpu", kind="chase", cells=cells)), TOPOLOGY)
    cells[1] = replace(cells[1], times_s=twice)
    assert "(median of 1 to 2 of 5 proc" in text(affinity(Matrix(device="cpu", kind="chase", cells=cells)), TOPOLOGY)


def test_disturbances_are_counted_with_an_example() -> None:
    cells = [cell(0, 0, 3e-8), replace(cell(0, 1, 4e-8), disturbed={1: ["it waited", "clocks fell"], 4: ["it waited"]})]
    shown = text(affinity(Matrix(device="cpu", kind="chase", cells=cells)), TOPOLOGY)
    assert "! 2 of 10 measurements were disturbed, the first one (chase): it waited; clocks fell\n" in shown
    assert "disturbed" not in text(affinity(Matrix(device="cpu", kind="chase", cells=cells[:1])), TOPOLOGY)


def test_caches_are_not_blamed_where_nothing_was_timed() -> None:
    found = replace(affinity(Matrix(device="cpu", kind="chase", cells=[cell(0, 0, None)])), caches_bytes=2**20)
    assert "caches" not in text(found, Topology())
