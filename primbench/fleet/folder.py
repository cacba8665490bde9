"""The folder of a fleet: a results file a node, who is missing, and by what nodes may stand out."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.compare.criteria import are_one
from primbench.errors import FileError
from primbench.fleet.node import FleetNode, NodeValue, Vocabulary, read_node
from primbench.results.metrics import METRICS
from primbench.system.inputs import unlike_a_file
from primbench.system.jsonlines import SUFFIXES
from primbench.system.said import in_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


MOST = 10_000  # names of one list
_ONE = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
LINKS = "links"  # the folder, in that of a fleet, of what was measured between its nodes
JudgedValues = dict[bytes, dict[str, dict[str, NodeValue]]]
"""Case -> metric -> node -> value, of all that a node may stand out by; the primary metric first."""


@dataclass(frozen=True)
class FleetFiles:
    """What the files of a folder hold."""

    known: Vocabulary
    judged: JudgedValues
    """By what nodes may stand out."""
    nodes: dict[str, FleetNode] = field(default_factory=dict)
    """By name."""
    missing: list[str] = field(default_factory=list)
    """Nodes that a launcher names and that left no file."""
    unnamed: int = 0
    """How many more there should be."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """File -> reason."""
    replaced: dict[str, bool] = field(default_factory=dict)
    """File of a node that has a later one -> whether both are of one boot."""


def read(folder: str) -> FleetFiles:
    """Raises FileError where there is no such folder, or no results file in it."""
    known = Vocabulary()
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.name.endswith(SUFFIXES))
    except OSError as error:
        raise FileError(f"{folder}: {error.strerror}") from None
    if not paths:
        raise FileError(f"{folder}: holds no results file of a node, NODE-RANK.jsonl, as `run --fleet {folder}` writes")
    found: list[FleetNode] = []
    unreadable: dict[str, str] = {}
    for path in paths:
        try:
            found.append(_read(path, known))
        except FileError as error:
            unreadable[path.name] = str(error)
    names = _names(found)
    latest: dict[str, FleetNode] = {}
    for node in sorted(found, key=lambda node: node.started_utc):
        latest[names[node.path]] = node
    missing, unnamed = _missing(found)
    nodes = dict(sorted(latest.items()))
    return FleetFiles(
        known=known,
        judged=judged_of(nodes, known),
        nodes=nodes,
        missing=missing,
        unnamed=max(0, unnamed - len(unreadable)),
        unreadable=unreadable,
        replaced=_replaced(found, {path: latest[name] for path, name in names.items()}),
    )


def _read(path: Path, known: Vocabulary) -> FleetNode:
    """Raises FileError for whatever one node's file holds: the others are summed up without it."""
    if kind := unlike_a_file(path):
        raise FileError(f"{path}: {kind}, and no results file")
    try:
        return read_node(path, known)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileError(f"{path}: holds what no node finds: {in_short(f'{type(error).__name__}: {error}')}") from error


def _replaced(found: Sequence[FleetNode], latest: Mapping[Path, FleetNode]) -> dict[str, bool]:
    """latest: file -> what counts for its node."""
    older = [node for node in found if latest[node.path] is not node]
    return {node.path.name: node.boot == latest[node.path].boot for node in older}


def _names(found: Sequence[FleetNode]) -> dict[Path, str]:
    of_name: dict[str, list[FleetNode]] = {}
    for node in found:
        of_name.setdefault(node.member.name, []).append(node)
    return {node.path: _name(node, alike) for alike in of_name.values() for node in alike}


def _name(node: FleetNode, alike: Sequence[FleetNode]) -> str:
    """Its own; with its rank where its launch has other machines of that name, as where all are called localhost.

    alike: all of that name, itself among them.
    """
    own = node.member
    is_shared = any(
        (each.member.job, each.member.launcher) == (own.job, own.launcher)
        and each.member.rank != own.rank
        and each.boot != node.boot
        for each in alike
    )
    return f"{own.name}-{own.rank}" if is_shared else own.name


def _missing(found: Iterable[FleetNode]) -> tuple[list[str], int]:
    """Names of nodes without a file, and how many more each launch should have left, as far as launchers say."""
    launches: dict[str | None, list[FleetNode]] = {}
    for node in found:
        launches.setdefault(node.member.job, []).append(node)
    absent = {job: _absent(nodes) for job, nodes in launches.items()}
    there = {node.member.node for nodes in launches.values() for node in nodes}
    missing = dict.fromkeys(name for names in absent.values() for name in names if name not in there)
    unnamed = (
        max(0, min(node.member.of for node in nodes) - len(nodes) - len(absent[job])) for job, nodes in launches.items()
    )
    return list(missing), sum(unnamed)


def _absent(nodes: Sequence[FleetNode]) -> list[str]:
    """Of one launch, by name, where it names its nodes and one process measures each."""
    own = {node.member.node for node in nodes}
    lists = dict.fromkeys(node.member.nodes for node in nodes if node.member.task is None)
    return [name for text in lists for name in node_names(text) if name not in own]


def read_links(folder: str) -> FleetFiles | None:
    """The same of what was measured between two nodes; None where that was nothing."""
    path = Path(folder, LINKS)
    return read(str(path)) if any(each.name.endswith(SUFFIXES) for each in path.glob("*")) else None


def node_names(text: str) -> list[str]:
    """Each name of nodes as Slurm writes them, "n[1-3,07],rack[1-2]n[1-4]", at most MOST of them.

    What is no range between brackets stands for itself.
    """
    return list(itertools.islice((name for one in _ONE.findall(text) for name in _of_list(one)), MOST))


def _of_list(one: str) -> Iterator[str]:
    literal, *rest = re.split(r"\[([^\]]*)\]", one, maxsplit=1)
    if not rest:
        yield literal
        return
    numbers, after = rest
    for number in _numbers(numbers):
        for following in _of_list(after):
            yield f"{literal}{number}{following}"


def _numbers(ranges: str) -> Iterator[str]:
    """Of "1-3,07", with the zeros that the first number of a range begins with."""
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        if found is None:
            yield each
        else:
            first, last = found[1], found[2] or found[1]
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def judged_of(nodes: Mapping[str, FleetNode], known: Vocabulary) -> JudgedValues:
    """Each case by its medians, and by the mean of the samples of the first one, in which a quota shows."""
    return {key: _judging(_values(nodes, key)) for key in known.cases}


def _values(nodes: Mapping[str, FleetNode], key: bytes) -> dict[str, dict[str, NodeValue]]:
    values: dict[str, dict[str, NodeValue]] = {}
    for name, node in nodes.items():
        if key in node.cases:
            for metric, value in node.cases[key].metrics.items():
                values.setdefault(metric, {})[name] = value
    return values


def _judging(values: Mapping[str, dict[str, NodeValue]]) -> dict[str, dict[str, NodeValue]]:
    """Those first that most nodes have, of these in the order of preference."""
    ordered = sorted(values, key=lambda name: -len(values[name]))
    medians = [name for name in ordered if METRICS[name].is_median]
    means = [
        name
        for name in ordered
        for first in medians[:1]
        if METRICS[name].is_mean and METRICS[name].samples_of == first and not _are_one(values[name], values[first])
    ]
    return {name: values[name] for name in (*medians, *means)}


def _are_one(one: Mapping[str, NodeValue], other: Mapping[str, NodeValue]) -> bool:
    """As where each node gives one sample, whose mean is its median, with as little noise of its own."""
    return all(
        are_one({name: of(each) for name, each in one.items()}, {name: of(each) for name, each in other.items()})
        for of in (attrgetter("time_s"), attrgetter("least_s"))
    )
