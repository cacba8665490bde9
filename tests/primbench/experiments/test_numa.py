"""Cases of the affinity experiment, and what records of two nodes and two GPUs say.

The records are constructed: no machine here has two nodes, and a known answer is what the analysis is held against.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from primbench.errors import InvalidRequest, PlacementError
from primbench.experiments import numa
from primbench.experiments.numa import Affinity, Axes, Cell, Matrix
from primbench.experiments.numa_analysis import analyse
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading, Pages
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.results.record import Record
from primbench.spec.case import Case
from primbench.suites.numa import COPIES, LAUNCH

DENIED = "mbind: Operation not permitted: EPERM"
SIZE_BYTES, ROUNDS, SEED = 2**20, 5, 3
GPUS = {(device, primitive): "numba" for device in ("cuda:0", "cuda:1") for primitive in ("memcpy", "launch")}
HOST = {("cpu", primitive): "numba" for primitive in ("memcpy", "chase")}
TWO = Axes(cpu_nodes=[0, 1], memory_nodes=[0, 1])
BY_TOUCH = Axes(cpu_nodes=[0, 1], memory_nodes=[0, 1], first_touch=DENIED)

Slower = Callable[[str, int, int | None], float]
"""(device, CPU node, memory node) -> by how much a cell is slower."""


def topology(*gpu_nodes: int | None) -> Topology:
    """Two nodes, and the GPUs on the nodes that sysfs names; NVML knows nothing."""
    return Topology(
        nodes=[
            Node(id=0, cpus=[0, 1], has_memory=True, allowed=True, distances={0: 10, 1: 21}),
            Node(id=1, cpus=[2, 3], has_memory=True, allowed=True, distances={0: 21, 1: 10}),
        ],
        cpus_allowed=[0, 1, 2, 3],
        gpus=[GpuPlace(device=f"cuda:{index}", node_by_sysfs=node) for index, node in enumerate(gpu_nodes)],
    )


def record(case: Case, seconds: float) -> Record:
    samples = Samples(samples_s=[seconds], calls_per_sample=1, taken_by="host clock", stopped="count")
    on_cpu = case.device == "cpu"
    measurement = Measurement(
        wall_s=samples,
        batch_s=samples if on_cpu else None,
        device_s=None if on_cpu else samples,
        bytes_moved=case.problem().bytes_moved(),
    )
    return Record(case=case, status="ok", measurement=measurement, started_utc="", duration_s=0.0)


def memory_node(case: Case) -> int | None:
    found = case.labels.get("memory_node")
    return None if found is None else int(found)


def records(
    slower: Slower,
    axes: Axes = TWO,
    backends: dict[tuple[str, str], str] = GPUS,
    *,
    rounds: int = ROUNDS,
    scatter: float = 0.003,
) -> list[Record]:
    """A record of every case: 1 ms, a scatter between processes, and a machine that slows down by the round."""
    rng = np.random.default_rng(1)
    found = []
    for case in numa.cases_of(axes, backends, size_bytes=SIZE_BYTES, rounds=rounds, seed=SEED):
        assert case.placement.cpu_node is not None
        factor = slower(case.device, case.placement.cpu_node, memory_node(case))
        drift = 1 + 0.02 * case.process
        found.append(record(case, 1e-3 * factor * drift * float(np.exp(scatter * rng.standard_normal()))))
    return found


def analysed(found: list[Record], place: Topology, axes: Axes = TWO, rounds: int = ROUNDS) -> Affinity:
    return analyse(axes, place, found, size_bytes=SIZE_BYTES, rounds=rounds, seed=SEED, missing={})


def far(device: str, cpu_node: int, memory: int | None) -> float:
    """GPU N is on node N: memory of the other node costs 30 %, a thread there 4 %."""
    own = int(device[-1])
    return (1.0 if memory in (own, None) else 1.3) * (1.0 if cpu_node == own else 1.04)


def cells(matrix: Matrix) -> dict[tuple[int, int | None], Cell]:
    return {(cell.cpu_node, cell.memory_node): cell for cell in matrix.cells}


def matrix_of(found: Affinity, device: str, kind: str) -> dict[tuple[int, int | None], Cell]:
    return next(cells(matrix) for matrix in found.matrices if (matrix.device, matrix.kind) == (device, kind))


def cases(axes: Axes = TWO, backends: dict[tuple[str, str], str] = GPUS, **values: Any) -> list[Case]:
    return numa.cases_of(axes, backends, **({"size_bytes": SIZE_BYTES, "rounds": 3, "seed": SEED} | values))


def test_every_round_has_every_cell_once() -> None:
    found = cases()
    for number in range(3):
        of_round = [case for case in found if case.process == number]
        assert 2 * 2 * (2 * 4 + 1) == len(of_round) == len({case.key() for case in of_round})
        assert {f"{number}"} == {case.labels["round"] for case in of_round}


def test_cells_of_one_cpu_node_and_device_stand_together_and_nodes_go_up_and_down_in_turn() -> None:
    workers = dict.fromkeys((case.process, case.device, case.placement.cpu_node) for case in cases())
    changes = [(case.process, case.device, case.placement.cpu_node) for case in cases()]
    assert len(workers) == 1 + sum(one != other for one, other in itertools.pairwise(changes))
    assert [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1] == [node for _, _, node in workers]


def test_the_order_of_cells_is_the_seeds() -> None:
    keys = [case.key() for case in cases()]
    assert keys == [case.key() for case in cases()]
    others = [case.key() for case in cases(seed=4)]
    assert keys != others
    first, second = ([case.parameters for case in cases() if case.process == number] for number in (0, 1))
    assert first != second


def test_memory_is_asked_for_on_the_side_of_the_host() -> None:
    for case in cases():
        if case.primitive == "memcpy":
            side, other = (
                ("src_node", "dst_node") if case.parameters["direction"] == "h2d" else ("dst_node", "src_node")
            )
            assert (memory_node(case), -1) == (case.parameters[side], case.parameters[other])


def test_where_memory_cannot_be_bound_each_cpu_node_has_its_own_alone() -> None:
    found = [case for case in cases(BY_TOUCH) if case.primitive == "memcpy"]
    assert {(0, 0), (1, 1)} == {(case.placement.cpu_node, memory_node(case)) for case in found}
    assert {-1} == {case.parameters[side] for case in found for side in ("src_node", "dst_node")}


def test_workers_of_two_backends_are_started_once_each() -> None:
    found = cases(backends={("cpu", "memcpy"): "torch", ("cpu", "chase"): "numba"}, rounds=1)
    assert ["numba", "numba", "torch", "torch"] * 2 == [case.backend for case in found]


def test_size_that_no_chase_has_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="chase bytes=1000: a multiple of 128"):
        cases(backends=HOST, size_bytes=1000)


def test_axes_leave_out_what_cannot_be_used() -> None:
    place = Topology(
        nodes=[
            Node(id=0, cpus=[0], has_memory=True, allowed=True),
            Node(id=1, cpus=[1], has_memory=False, allowed=False),
            Node(id=2, cpus=[], has_memory=True, allowed=True),
            Node(id=3, cpus=[2], has_memory=True, allowed=False),
            Node(id=8, cpus=[], has_memory=True, allowed=True, gpu="0009:01:00.0"),
        ],
        cpus_allowed=[0, 1],
    )
    found = numa.axes_of(place)
    assert ([0, 1], [0, 2]) == (found.cpu_nodes, found.memory_nodes)


def test_a_machine_that_tells_no_nodes_is_an_error_with_the_reason() -> None:
    with pytest.raises(PlacementError, match=r"does not tell its nodes \(/sys/devices/system/node/online: ENOENT\)"):
        numa.axes_of(Topology(missing={"nodes": "/sys/devices/system/node/online: ENOENT"}))


def test_each_gpu_is_found_on_its_node_with_the_cost_of_the_other() -> None:
    found = analysed(records(far), topology(0, 1))
    assert [("cuda:0", 0, None), ("cuda:1", 1, None)] == [(n.subject, n.node, n.disagreement) for n in found.nearness]
    for kind in COPIES:
        matrix = matrix_of(found, "cuda:1", kind)
        assert [(1, 1)] == [place for place, cell in matrix.items() if cell.is_nearest]
        for place, factor in {(0, 0): 1.3 * 1.04, (0, 1): 1.04, (1, 0): 1.3}.items():
            cell = matrix[place]
            assert cell.ratio == pytest.approx(factor, rel=0.01)
            assert cell.ratio_low is not None
            assert cell.ratio_high is not None
            assert cell.ratio_low < factor < cell.ratio_high < cell.ratio_low * 1.02
    assert {(0, None), (1, None)} == matrix_of(found, "cuda:0", LAUNCH).keys()
    assert matrix_of(found, "cuda:1", "h2d pinned")[1, 1].bytes_per_s == pytest.approx(SIZE_BYTES / 1.04e-3, rel=0.01)


def test_one_pair_of_looks_says_what_the_other_node_costs() -> None:
    copies, launches = analysed(records(far), topology(0, 1)).nearness[1].looks
    assert (("copies", 1), ("launches", 1)) == ((copies.by, copies.node), (launches.by, launches.node))
    ((other, ratio),) = [(contrast.node, contrast.ratio) for contrast in copies.contrasts]
    assert 0 == other
    assert ratio == pytest.approx(1.3, rel=0.01)
    assert [pytest.approx(1.04, rel=0.01)] == [contrast.ratio for contrast in launches.contrasts]


def test_what_the_system_says_wrongly_is_a_disagreement() -> None:
    found = analysed(records(far), topology(1, 1))
    assert ["sysfs says node 1, measurement says node 0", None] == [each.disagreement for each in found.nearness]


def test_a_gpu_that_the_system_places_nowhere_is_found() -> None:
    found = analysed(records(far), topology())
    assert [(0, None), (1, None)] == [(each.node, each.disagreement) for each in found.nearness]
    assert {"sysfs": None, "NVML": None} == found.nearness[0].said


def test_witnesses_disagree_where_measurement_cannot_tell() -> None:
    place = topology(0)
    assert place.gpus
    place = replace(place, gpus=[replace(place.gpus[0], node_by_nvml=1)])
    found = analysed(records(lambda *_: 1.0), place).nearness[0]
    assert (None, "sysfs says node 0, NVML says node 1") == (found.node, found.disagreement)


def test_nodes_that_are_equally_near_are_told_apart_one_time_in_twenty_at_most() -> None:
    same, rng = records(lambda *_: 1.0, scatter=0.0), np.random.default_rng(1)
    told = 0
    for _ in range(200):
        found = analysed([slowed(one, float(np.exp(0.003 * rng.standard_normal()))) for one in same], topology(0, 1))
        told += sum(any(look.node is not None for look in each.looks) for each in found.nearness)
    assert 0 < told <= 0.07 * 2 * 200


def slowed(one: Record, factor: float) -> Record:
    assert one.measurement is not None
    assert one.measurement.wall_s is not None
    samples = replace(one.measurement.wall_s, samples_s=[factor * one.measurement.wall_s.median_s])
    return replace(one, measurement=replace(one.measurement, wall_s=samples, device_s=samples))


def test_nodes_that_cannot_be_told_apart_are_said_to_be_so() -> None:
    (found, _) = analysed(records(lambda *_: 1.0), topology(0, 1)).nearness
    assert (None, None) == (found.node, found.disagreement)
    assert "copies: nodes cannot be told apart; launches: nodes cannot be told apart" == found.reason


def test_looks_that_contradict_each_other_name_no_node() -> None:
    def crossed(device: str, cpu_node: int, memory: int | None) -> float:
        return 1.0 + 0.2 * (cpu_node == 0 if memory is None else memory == 1)

    found = analysed(records(crossed), topology(0, 1)).nearness[0]
    assert (None, "copies: node 0; launches: node 1") == (found.node, found.reason)


def with_memory_alone(place: Topology, initiators: list[int]) -> Topology:
    assert place.nodes
    node = Node(id=2, cpus=[], has_memory=True, allowed=True, initiators=initiators)
    return replace(place, nodes=[*place.nodes, node])


@pytest.mark.parametrize(
    ("initiators", "node", "disagreement"),
    [
        ([0], 2, None),
        ([0, 1], 2, None),
        ([], 2, None),
        ([1], None, "sysfs says node 1, NVML says node 0"),
    ],
)
def test_memory_without_cpus_is_joined_to_the_cpus_near_it(
    initiators: list[int], node: int | None, disagreement: str | None
) -> None:
    """Copies are quickest from it, launches from CPU node 0, on which the system says that the GPU is."""
    axes = Axes(cpu_nodes=[0, 1], memory_nodes=[0, 1, 2])
    said = replace(
        with_memory_alone(topology(0), initiators),
        gpus=[GpuPlace(device="cuda:0", node_by_sysfs=1 if disagreement else 0, node_by_nvml=0)],
    )
    found = analysed(
        records(lambda device, cpu, memory: 0.8 if memory == 2 else far("cuda:0", cpu, memory), axes), said, axes
    ).nearness[0]
    assert (node, disagreement) == (found.node, found.disagreement)
    assert (initiators if node else []) == found.initiators


def test_system_that_names_the_cpus_of_other_memory_is_contradicted() -> None:
    axes = Axes(cpu_nodes=[0], memory_nodes=[0, 1, 2])
    found = analysed(
        records(lambda device, cpu, memory: 0.8 if memory == 2 else 1.0, axes),
        with_memory_alone(topology(1), [0]),
        axes,
    ).nearness[0]
    assert "sysfs says node 1, measurement says node 2" == found.disagreement


def test_one_round_has_ratios_and_no_intervals() -> None:
    found = analysed(records(far, rounds=1), topology(0, 1), rounds=1)
    cell = matrix_of(found, "cuda:0", "h2d pinned")[0, 1]
    assert cell.ratio == pytest.approx(1.3, rel=0.02)
    assert (None, None) == (cell.ratio_low, cell.ratio_high)
    assert [None, None] == [each.node for each in found.nearness]
    assert "copies: one round, which has no interval" in (found.nearness[0].reason or "")


def failed(one: Record, status: Any, reason: str) -> Record:
    return replace(one, status=status, reason=reason, measurement=None)


def test_cell_that_cannot_be_had_stays_with_its_reason_and_the_rest_is_said() -> None:
    refused = [
        failed(one, "skipped", "no memory on node 1: mbind: EINVAL") if memory_node(one.case) == 1 else one
        for one in records(far)
    ]
    found = analysed(refused, topology(0, 1))
    matrix = matrix_of(found, "cuda:0", "h2d pinned")
    assert {"no memory on node 1: mbind: EINVAL"} == {matrix[place].reason for place in ((0, 1), (1, 1))}
    assert (True, None) == (matrix[0, 0].is_nearest, matrix[0, 0].reason)
    copies, launches = found.nearness[1].looks
    assert ("one node has times", None) == (copies.reason, copies.node)
    assert 1 == launches.node == found.nearness[1].node


def test_rounds_that_failed_are_left_out_of_the_ratio_and_named() -> None:
    def is_hit(one: Record) -> bool:
        place = (one.case.placement.cpu_node, memory_node(one.case), one.case.process)
        return one.case.parameters.get("direction") == "h2d" and place == (0, 1, 2)

    found = analysed([failed(one, "failed", "no answer") if is_hit(one) else one for one in records(far)], topology(0))
    cell = matrix_of(found, "cuda:0", "h2d pinned")[0, 1]
    assert ([0, 1, 3, 4], "no answer") == (list(cell.times_s), cell.reason)
    assert cell.ratio == pytest.approx(1.3, rel=0.01)
    assert 0 == found.nearness[0].node


def test_time_on_other_pages_than_asked_for_is_none_of_the_cell() -> None:
    pages = Pages(by_node={0: 60, 1: 40}, asked=[1], misplaced=True, read_by="numa_maps")
    found = records(far)
    measured = [one.measurement for one in found]
    moved = [
        replace(one, measurement=replace(each, pages=pages)) if each and memory_node(one.case) == 1 else one
        for one, each in zip(found, measured, strict=True)
    ]
    matrix = matrix_of(analysed(moved, topology(0)), "cuda:0", "h2d pinned")
    assert ({}, "pages are on other nodes: 60 on 0, 40 on 1") == (matrix[0, 1].times_s, matrix[0, 1].reason)


def test_by_first_touch_thread_and_memory_go_together() -> None:
    found = analysed(records(far, BY_TOUCH), topology(0, 1), BY_TOUCH)
    matrix = matrix_of(found, "cuda:1", "h2d pinned")
    assert matrix[0, 0].ratio == pytest.approx(1.3 * 1.04, rel=0.01)
    reason = f"memory cannot be bound, so that it is where its thread is: {DENIED}"
    assert [(None, reason)] * 2 == [(matrix[place].median_s, matrix[place].reason) for place in ((0, 1), (1, 0))]
    assert [0, 1] == [each.node for each in found.nearness]


def test_interrupted_experiment_says_what_was_not_measured() -> None:
    done = [one for one in records(far) if one.case.placement.cpu_node == 0]
    matrix = matrix_of(analysed(done, topology(0)), "cuda:0", "h2d pinned")
    assert ["not measured"] * 2 == [matrix[1, node].reason for node in (0, 1)]
    assert [] == analysed([], topology(0)).matrices


def test_of_the_host_each_cpu_node_has_a_nearest_memory() -> None:
    def crossed(device: str, cpu_node: int, memory: int | None) -> float:
        return 1.0 if cpu_node == memory else 1.5

    found = analysed(records(crossed, backends=HOST), topology())
    assert [("CPU node 0", 0, None), ("CPU node 1", 1, None)] == [
        (each.subject, each.node, each.disagreement) for each in found.nearness
    ]
    assert {"distances": 1} == found.nearness[1].said
    chase = matrix_of(found, "cpu", "chase")
    assert chase[0, 0].median_s == pytest.approx(1.04e-3 / (SIZE_BYTES // 128 - 1), rel=0.01)


def test_distances_that_measurement_contradicts() -> None:
    swapped = analysed(records(lambda _, cpu, memory: 1.0 + 0.5 * (cpu == memory), backends=HOST), topology())
    assert "distances says node 0, measurement says node 1" == swapped.nearness[0].disagreement


def test_what_disturbed_a_time_stands_beside_it() -> None:
    found = records(far)
    assert not any(each.disturbed for matrix in analysed(found, topology()).matrices for each in matrix.cells)
    host = HostReading(duration_s=1.0, cpu_time_s=1.0, voluntary_switches=0, involuntary_switches=0, waited_s=0.5)
    at = next(place for place, each in enumerate(found) if each.case.primitive == LAUNCH)
    measurement = found[at].measurement
    assert measurement is not None
    found[at] = replace(found[at], measurement=replace(measurement, host=host))
    disturbed = [each.disturbed for matrix in analysed(found, topology()).matrices for each in matrix.cells]
    words = ["it waited for a CPU during 50.0% of its time"]
    assert [{found[at].case.process: words}] == [each for each in disturbed if each]
