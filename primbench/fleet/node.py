"""One node by its results file: a few numbers of each case, so that a thousand nodes fit in memory."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from primbench import stats
from primbench.compare.criteria import metrics_of
from primbench.compare.outputs import SeenOutput, seen_in
from primbench.compare.sides import identity
from primbench.environment.comparable import comparable, meaning_of
from primbench.environment.words import in_words, parted
from primbench.results.file import read_in_part
from primbench.spec.fleet import Member
from primbench.system.meaning import FactId
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from primbench.gpu.nvidia.gpu import Gpu
    from primbench.measurement import Samples
    from primbench.results.file import Results
    from primbench.results.metrics import Metric
    from primbench.results.record import Record, Worker
    from primbench.spec.case import Case

BLOCKS = 10


class Unknown(Enum):
    """In the place of a value, of which any word may be one."""

    UNKNOWN = "not known"


UNKNOWN = Unknown.UNKNOWN


class NodeValue(NamedTuple):
    """Of a metric on a node: seconds, and what is left of that without the node's own sampling noise."""

    time_s: float
    least_s: float


class CaseOfNode(NamedTuple):
    """What became of a case."""

    reason: str | None
    """Why it has no time, where a process failed or none measured it; None where it has one."""
    is_failed: bool
    metrics: dict[str, NodeValue]
    """Metric -> seconds, the median over processes."""
    outputs: tuple[SeenOutput, ...] = ()
    """Outputs of each process, its node being left open."""


class MachineKind(NamedTuple):
    """By what machines are told apart that need not be equally fast."""

    cpu: str | None
    """Model of the CPU; None where unknown."""
    gpus: tuple[str, ...]
    """Models of the GPUs with the size of their memory, each once."""
    driver: str | None
    """Version of NVIDIA's driver; None where there is none, or where it is unknown."""


@dataclass(frozen=True)
class FleetNode:
    """What is kept of a node's file."""

    path: Path
    member: Member
    started_utc: str
    cases: dict[bytes, CaseOfNode]
    traits: array[int]
    """Facts of the node, as numbers in Vocabulary; none where no worker came up."""
    boot: str | None = None
    """Id of the start of its kernel, by which machines are told apart that have one name."""
    kind: MachineKind | None = None
    """Kind of its machine; None of a link, which has two."""
    damage: str | None = None
    """Where its file ends early; None where it is whole."""


@dataclass(frozen=True)
class Vocabulary:
    """What is the same for many nodes, held once: cases, and traits, which are fields of the place with their values.

    Of values that are written alike the first stands for all. Fields of which nothing matters are left out, and those
    that need not be alike.
    """

    cases: dict[bytes, Case] = field(default_factory=dict)
    outputs: dict[bytes, SeenOutput] = field(default_factory=dict)
    traits: list[tuple[FactId, Any]] = field(default_factory=list)
    _numbers: dict[tuple[FactId, str], int] = field(default_factory=dict)

    def number(self, name: FactId, value: Any) -> int:
        found = self._numbers.setdefault((name, in_words(name, value)), len(self.traits))
        if found == len(self.traits):
            self.traits.append((name, value))
        return found

    def output(self, seen: SeenOutput) -> SeenOutput:
        return self.outputs.setdefault(msgspec.json.encode(seen, order="deterministic"), seen)

    def traits_of(self, node: FleetNode) -> dict[FactId, Any]:
        """Its fields with their values; {} where no worker came up."""
        return dict(self.traits[number] for number in node.traits)


def read_node(path: Path, known: Vocabulary) -> FleetNode:
    """What a node found, as far as its file is whole. Raises FileError where not even its header is."""
    results, damage = read_in_part(path)
    workers = {worker.worker: worker for worker in results.workers}
    records: dict[bytes, list[Record]] = {}
    for record in results.latest():
        key = identity(record.case)
        known.cases.setdefault(key, record.case)
        records.setdefault(key, []).append(record)
    return FleetNode(
        path=path,
        member=results.header.member or Member(node=path.name.removesuffix(".jsonl"), rank=0, of=1),
        started_utc=results.header.started_utc,
        cases={key: _of_node(found, workers, known) for key, found in records.items()},
        traits=array("L", sorted({known.number(*each) for each in _traits(results)})),
        boot=results.header.environment.machine.boot_id,
        kind=_kind(results),
        damage=None if damage is None else str(damage),
    )


def _kind(results: Results) -> MachineKind | None:
    if getattr(results.header.member, "peer", None) is not None:
        return None
    places = [results.header.environment, *(worker.environment for worker in results.workers)]
    gpus = [gpu for each in places for gpu in each.devices.gpus or [] if gpu.name]
    drivers = [*(each.devices.driver_version for each in places), *(gpu.driver_version for gpu in gpus)]
    models = sorted({_model(gpu) for gpu in gpus})
    return MachineKind(places[0].machine.cpu_model, tuple(models), next(filter(None, drivers), None))


def _model(gpu: Gpu) -> str:
    size = f", {format_bytes(gpu.memory_bytes)}" if gpu.memory_bytes else ""
    return f"{gpu.name}{size}"


def _of_node(records: Sequence[Record], workers: Mapping[int, Worker], known: Vocabulary) -> CaseOfNode:
    measured = [each for each in records if each.status == "ok"]
    values = {metric.name: _values(metric, measured) for metric in metrics_of(records[0].case.primitive)}
    is_failed = any(each.status == "failed" for each in records)
    return CaseOfNode(
        reason=_reason(records) if is_failed or not measured else None,
        is_failed=is_failed,
        metrics={name: _median(of_metric) for name, of_metric in values.items() if of_metric},
        outputs=tuple(map(known.output, seen_in("", measured, workers))),
    )


def _reason(records: Sequence[Record]) -> str:
    return "; ".join(dict.fromkeys(f"{each.status}: {each.reason}" for each in records if each.status != "ok"))


def _values(metric: Metric, records: Sequence[Record]) -> list[NodeValue]:
    """One a process; none of a tail, which few samples know badly."""
    if metric.is_tail:
        return []
    return [value for record in records if (value := _value(metric, record)) is not None]


def _median(values: Sequence[NodeValue]) -> NodeValue:
    return NodeValue(*(stats.quantile(each, 0.5) for each in zip(*values, strict=True)))


def _value(metric: Metric, record: Record) -> NodeValue | None:
    found = metric.distinct_samples(record.measurement) if record.measurement else None
    time_s = metric.of([found]) if found else None
    return NodeValue(time_s, _least_s(metric, found)) if found and time_s else None


def _least_s(metric: Metric, found: Samples) -> float:
    """A median's lower end of its 95 % interval; a mean without that tenth of the samples in which it was highest, so
    that nothing that happened once makes a node slow.
    """
    if metric.is_median:
        interval = stats.median_interval(found.samples_s)
        return interval[0] if interval else min(found.samples_s)
    length = -(-len(found.samples_s) // BLOCKS)
    sums = [sum(found.samples_s[start : start + length]) for start in range(0, len(found.samples_s), length)]
    counts = [min(length, len(found.samples_s) - start) for start in range(0, len(found.samples_s), length)]
    highest = max(range(len(sums)), key=lambda block: sums[block] / counts[block])
    if len(sums) == 1:
        return min(found.samples_s)
    return (sum(sums) - sums[highest]) / (sum(counts) - counts[highest])


def _traits(results: Results) -> Iterator[tuple[FactId, Any]]:
    if not results.workers:
        return
    environment = results.workers[0].environment
    for name, value in _flat(FactId(), comparable(environment, environment)):
        meaning = meaning_of(name)
        if meaning.layer is not None and not meaning.varies:
            yield name, value


def _flat(name: FactId, value: Any) -> Iterator[tuple[FactId, Any]]:
    """Fields as ``environment.difference`` names them; None is none, or no limit, and what is not known UNKNOWN."""
    if isinstance(value, dict):
        for inner, of_inner in _with_unknown(value).items():
            yield from _flat(FactId(*name, inner), of_inner)
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flat(FactId(*name, number), each)
    else:
        yield name, value


def _with_unknown(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group of fields, of which ``missing`` says why some are not known."""
    entries, missing = parted(group)
    return entries | {name: UNKNOWN for name, value in entries.items() if value is None and name in missing}
