"""What the records of the affinity experiment say: times cell by cell, and which node is near to what."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import stats
from primbench.experiments.numa import (
    CONFIDENCE,
    CPU,
    LOOKS_CONFIDENCE,
    Affinity,
    Axes,
    Cell,
    Contrast,
    Matrix,
    Nearness,
    NumaLook,
)
from primbench.numa.topology import GpuPlace, Topology
from primbench.results.summary import figures_of
from primbench.suites.numa import CHASE, HOST_COPY, KINDS, LAUNCH, kind_of
from primbench.system.memory import last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from primbench.results.record import Record


def analyse(
    axes: Axes,
    topology: Topology,
    records: Sequence[Record],
    *,
    size_bytes: int,
    rounds: int,
    seed: int,
    missing: Mapping[str, str],
) -> Affinity:
    """What the records of the cases say, as many as there are."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.case.device, kind_of(record.case)), []).append(record)
    matrices = [
        Matrix(device=device, kind=kind, cells=_cells(axes, kind, found[device, kind]))
        for device in dict.fromkeys(device for device, _ in found)
        for kind in KINDS
        if (device, kind) in found
    ]
    return Affinity(
        axes=axes,
        rounds=rounds,
        seed=seed,
        size_bytes=size_bytes,
        caches_bytes=last_level_cache_bytes(),
        nearness=list(_nearness(axes, topology, matrices)),
        matrices=matrices,
        missing=dict(missing),
    )


def _cells(axes: Axes, kind: str, records: Sequence[Record]) -> list[Cell]:
    places = itertools.product(axes.cpu_nodes, [None] if kind == LAUNCH else axes.memory_nodes)
    of_place: dict[tuple[int | None, int | None], list[Record]] = {}
    for record in records:
        of_place.setdefault((record.case.placement.cpu_node, _memory_node(record)), []).append(record)
    cells = [_cell(axes, *place, of_place.get(place, [])) for place in places]
    timed = [cell for cell in cells if cell.median_s]
    if not timed:
        return cells
    nearest = min(timed, key=lambda cell: cell.median_s or math.inf)
    return [_beside(cell, nearest) for cell in cells]


def _memory_node(record: Record) -> int | None:
    found = record.case.labels.get("memory_node")
    return None if found is None else int(found)


def _cell(axes: Axes, cpu_node: int, memory_node: int | None, records: Sequence[Record]) -> Cell:
    timed, times_s, reasons = [], {}, []
    for record in records:
        reason = _why_not(record)
        time_s = None if reason else _time_s(record)
        if time_s is None:
            reasons.append(reason or "not timed")
            continue
        timed.append(record)
        times_s[record.case.process] = time_s
    if not records:
        reasons = [axes.refusal(cpu_node, memory_node) or "not measured"]
    return Cell(
        cpu_node=cpu_node,
        memory_node=memory_node,
        times_s=times_s,
        median_s=_median(times_s.values()),
        bytes_per_s=_median(map(_bytes_per_s, timed)),
        reason="; ".join(dict.fromkeys(reasons)) or None,
        disturbed={record.case.process: record.disturbed_by for record in timed if record.disturbances},
    )


def _median(values: Iterable[float | None]) -> float | None:
    """Median of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return stats.quantile(known, 0.5) if known else None


def _bytes_per_s(record: Record) -> float | None:
    return record.measurement.bytes_per_s if record.measurement else None


def _why_not(record: Record) -> str | None:
    """Why a record's time is none of its cell."""
    if record.status != "ok":
        return record.reason or record.status
    pages = record.measurement.pages if record.measurement else None
    if pages is not None and pages.misplaced:
        return f"pages are on other nodes: {', '.join(f'{count} on {node}' for node, count in pages.by_node.items())}"
    return None


def _time_s(record: Record) -> float | None:
    measured = record.measurement
    if record.case.primitive == CHASE:
        return figures_of(record)["load_s"]
    timed = measured and (measured.wall_s if record.case.primitive == LAUNCH else measured.main)
    return timed.median_s or None if timed else None


def _beside(cell: Cell, nearest: Cell) -> Cell:
    """The cell with its ratio to the nearest, over the rounds that have both."""
    if cell is nearest:
        return replace(cell, is_nearest=True)
    rounds = sorted(cell.times_s.keys() & nearest.times_s.keys())
    if not rounds:
        return cell
    ratio, low, high = stats.paired_ratio(
        [cell.times_s[number] for number in rounds], [nearest.times_s[number] for number in rounds], CONFIDENCE
    )
    return replace(cell, ratio=ratio, ratio_low=low, ratio_high=high)


def _nearness(axes: Axes, topology: Topology, matrices: Sequence[Matrix]) -> Iterator[Nearness]:
    """Which node is nearest to each GPU; to the CPUs of each node where no GPU was measured."""
    gpus = {place.device: place for place in topology.gpus or []}
    for device in dict.fromkeys(matrix.device for matrix in matrices):
        of_kind = {matrix.kind: matrix.cells for matrix in matrices if matrix.device == device}
        if device != CPU:
            yield _of_gpu(axes, topology, gpus.get(device, GpuPlace(device=device)), of_kind)
            continue
        for cpu_node in axes.cpu_nodes:
            yield _of_cpus(axes, topology, cpu_node, of_kind)


def _of_cpus(axes: Axes, topology: Topology, cpu_node: int, of_kind: Mapping[str, list[Cell]]) -> Nearness:
    looks = [
        _look(axes, by, {kind: [cell for cell in of_kind.get(kind, []) if cell.cpu_node == cpu_node]})
        for by, kind in (("loads", CHASE), ("copies", HOST_COPY))
    ]
    said = {"distances": _closest(topology, axes, cpu_node)}
    return _nearest(topology, f"CPU node {cpu_node}", said, looks)


def _of_gpu(axes: Axes, topology: Topology, place: GpuPlace, of_kind: Mapping[str, list[Cell]]) -> Nearness:
    """Pinned copies alone are made by the GPU itself, from the memory's node; launches go out from the thread's."""
    copies = {kind: of_kind[kind] for kind in ("h2d pinned", "d2h pinned") if kind in of_kind}
    launches = {LAUNCH: of_kind.get(LAUNCH, [])}
    looks = [_look(axes, "copies", copies), _look(axes, "launches", launches)]
    said = {"sysfs": place.node_by_sysfs, "NVML": place.node_by_nvml}
    return _nearest(topology, place.device, said, looks)


def _closest(topology: Topology, axes: Axes, cpu_node: int) -> int | None:
    """The memory node at the least distance by the firmware's table; None where two share it or none is told."""
    told = next((node.distances for node in topology.nodes or [] if node.id == cpu_node), {})
    distances = {node: told[node] for node in axes.memory_nodes if node in told}
    closest = [node for node, distance in distances.items() if distance == min(distances.values())]
    return closest[0] if len(closest) == 1 else None


def _nearest(topology: Topology, subject: str, said: dict[str, int | None], looks: list[NumaLook]) -> Nearness:
    node = _agreed(topology, looks)
    told = said | {"measurement": node}
    known = {who: number for who, number in told.items() if number is not None}
    words = ", ".join(f"{who} says node {number}" for who, number in known.items())
    return Nearness(
        subject=subject,
        said=said,
        looks=looks,
        node=node,
        initiators=[] if node is None else sorted((_cpu_nodes(topology, node) or set()) - {node}),
        reason=_what_each_says(looks) if node is None else None,
        disagreement=words if _apart(topology, known.values()) else None,
    )


def _agreed(topology: Topology, looks: Iterable[NumaLook]) -> int | None:
    """Copies may be nearest to memory without CPUs where launches, and the system, can only name a node with some."""
    named = [look.node for look in looks if look.node is not None]
    return named[0] if named and not _apart(topology, named) else None


def _what_each_says(looks: Iterable[NumaLook]) -> str:
    return "; ".join(f"{look.by}: {f'node {look.node}' if look.node is not None else look.reason}" for look in looks)


def _apart(topology: Topology, nodes: Iterable[int]) -> bool:
    """Whether no CPUs are near to all of the nodes, of those of which that is told."""
    near = [cpu_nodes for node in nodes if (cpu_nodes := _cpu_nodes(topology, node))]
    return bool(near) and not set.intersection(*near)


def _cpu_nodes(topology: Topology, node: int) -> set[int] | None:
    """The node itself, if it has CPUs, else its initiators; None where firmware tells none."""
    found = next((each for each in topology.nodes or [] if each.id == node), None)
    return {node} if found is None or found.cpus else set(found.initiators) or None


GroupOfCells = dict[int, dict[int, float]]
"""Node -> round -> time, of cells in which all else is equal."""


def _look(axes: Axes, by: str, of_kind: Mapping[str, Collection[Cell]]) -> NumaLook:
    """Compare nodes where all else is equal: the kind of copy, and the other node unless it goes along."""
    groups = _groups(axes, of_kind)
    nodes = sorted({node for group in groups for node in group})
    if len(nodes) < 2:
        return NumaLook(by=by, reason="one node has times" if nodes else "no node has times")
    times = _times_s(groups, nodes)
    if not times:
        return NumaLook(by=by, reason="no round has times of all nodes")
    return _compared(by, times)


def _compared(by: str, times: Mapping[int, list[float]]) -> NumaLook:
    """Which node is nearest, if it can be told. times: node -> seconds, one for each round."""
    nearest = min(times, key=lambda node: _mean(times[node]))
    contrasts = [_contrast(node, times[node], times[nearest]) for node in times if node != nearest]
    if len(times[nearest]) == 1:
        return NumaLook(by=by, contrasts=contrasts, reason="one round, which has no interval")
    if all(contrast.low is not None and contrast.low > 1 for contrast in contrasts):
        return NumaLook(by=by, contrasts=contrasts, node=nearest)
    return NumaLook(by=by, contrasts=contrasts, reason="nodes cannot be told apart")


def _contrast(node: int, times_s: Sequence[float], nearest_s: Sequence[float]) -> Contrast:
    found = stats.paired_ratio(times_s, nearest_s, LOOKS_CONFIDENCE)
    return Contrast(node=node, ratio=found.ratio, low=found.low, high=found.high)


def _groups(axes: Axes, of_kind: Mapping[str, Collection[Cell]]) -> list[GroupOfCells]:
    found: dict[Hashable, GroupOfCells] = {}
    for kind, cell in ((kind, cell) for kind, cells in of_kind.items() for cell in cells if cell.times_s):
        node = cell.cpu_node if cell.memory_node is None else cell.memory_node
        alone = cell.memory_node is None or axes.first_touch is not None
        found.setdefault((kind, None if alone else cell.cpu_node), {})[node] = cell.times_s
    return list(found.values())


def _times_s(groups: Sequence[GroupOfCells], nodes: Sequence[int]) -> dict[int, list[float]]:
    """Each node's mean over the groups with all nodes, round by round of those that all have; {} where none is."""
    whole = [group for group in groups if len(group) == len(nodes)]
    rounds = [set(times) for group in whole for times in group.values()]
    common = sorted(set.intersection(*rounds)) if rounds else []
    if not common:
        return {}
    return {node: [_mean([group[node][number] for group in whole]) for number in common] for node in nodes}


def _mean(times_s: Sequence[float]) -> float:
    """The geometric mean, as ratios are what is compared."""
    return math.exp(math.fsum(map(math.log, times_s)) / len(times_s))
