"""Whether nodes are fit, by all that was measured of them: each part beside its peers, and beside a population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from primbench.compare.shown import shown_ratio
from primbench.errors import FileError
from primbench.fleet.findings import Fleet, NodeFindings
from primbench.fleet.folder import FleetFiles, judged_of, read
from primbench.fleet.kinds import kinds_of, peers_of
from primbench.fleet.node import Vocabulary
from primbench.fleet.report import node_words
from primbench.fleet.soak import Soaked, soaked
from primbench.fleet.state import seen_of
from primbench.fleet.summary import deviating_of, limits_of, summarize
from primbench.spec.case import Case
from primbench.spec.naming import name_of
from primbench.system.jsonlines import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from primbench.fleet.state import SeenState

CertifiedPart = Literal["host", "alone", "together", "links", "soak"]
PARTS: tuple[CertifiedPart, ...] = ("host", "alone", "together", "links")
"""Folders of what was measured: the node itself, each GPU while others rest, all at once, and between two of them."""
SOAK: CertifiedPart = "soak"
BY_ITSELF: tuple[CertifiedPart, ...] = ("host", "alone")
"""Those beside which nothing else of a node is measured."""
OF_PART: Mapping[CertifiedPart, str] = {"host": "node", "alone": "GPU", "together": "GPU", "links": "link"}
THEIRS = "of the population: "
Why = Literal[
    "slow",
    "unmeasured",
    "output",
    "place",
    "neighbour",
    "busy CPUs",
    "heat",
    "memory errors",
    "replays",
    "drift",
    "missing",
]


class Unfitness(msgspec.Struct, frozen=True, kw_only=True):
    """Why a member is not fit."""

    why: Why
    words: str
    advice: str | None = None
    """What to do, where that is known."""


class Certified(msgspec.Struct, frozen=True, kw_only=True):
    """A member, which is a node, a GPU of it, or what is between two GPUs, and what was found wrong."""

    member: str
    reasons: list[Unfitness]
    """[] of one that is fit."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a case of a member, among those of a population."""

    part: CertifiedPart
    member: str
    case: Case
    metric: str
    time_s: float
    median_s: float
    """Of the population and those that are set beside it."""
    percentile: float
    """Of the population's members of that kind, the share whose time is shorter."""
    members: int
    """How many these are."""
    limit: float | None
    """Ratio to the median above which a member stands out; None where there are too few."""
    is_slow: bool


class NodeCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of nodes, and which of them are fit."""

    folder: str
    parts: dict[CertifiedPart, Fleet]
    members: list[Certified]
    placed: list[Placed]
    """[] where no population is set beside."""
    population: str | None
    soaked: list[Soaked]
    warnings: list[str]
    """What the places have that can slow them down, and does not make them unfit."""

    @property
    def is_fit(self) -> bool:
        """Whether each member is."""
        return bool(self.members) and not any(each.reasons for each in self.members)

    @property
    def are_times_judged(self) -> bool:
        """Whether any time was set beside enough others, peers or a population, to tell a slow member."""
        cases = (each for fleet in self.parts.values() for each in fleet.cases)
        limits = [metric.limit for each in cases for metric in each.metrics] + [each.limit for each in self.placed]
        return any(each is not None for each in limits)


def read_parts(folder: Path) -> dict[CertifiedPart, FleetFiles]:
    """What there is of each. Raises FileError where there is nothing."""
    found = {part: read(str(folder / part)) for part in PARTS if any(_files(folder / part))}
    if not found:
        raise FileError(f"{folder}: holds nothing that `primbench certify {folder}` measured, which measures it anew")
    return found


def _files(folder: Path) -> Iterator[Path]:
    return (each for each in folder.glob("*") if each.name.endswith(SUFFIXES))


def certify(folder: Path, population: tuple[str, Path] | None) -> NodeCertificate:
    """Judge all that is in a folder. population: by name, and its folder. Raises FileError."""
    held = read_parts(folder)
    fleets = {part: summarize(part, files, what=OF_PART[part]) for part, files in held.items()}
    placed = [] if population is None else [*_among(held, read_parts(population[1]))]
    soaks, lost = _soaked(folder / SOAK)
    places = [*_places(held)]
    told = [*_of_fleets(fleets), *_of_outputs(held), *_of_populations(placed), *_of_places(places)]
    told += [*_of_soaks(soaks), *lost]
    wrong: dict[str, list[Unfitness]] = {name: [] for name, _ in places}
    for member, reason in told:
        wrong.setdefault(member, []).append(reason)
    return NodeCertificate(
        folder=folder.name,
        parts=fleets,
        members=[Certified(member=name, reasons=_once(reasons)) for name, reasons in sorted(wrong.items())],
        placed=placed,
        population=population[0] if population is not None else None,
        soaked=soaks,
        warnings=_warnings(places),
    )


def _places(held: Mapping[CertifiedPart, FleetFiles]) -> Iterator[tuple[str, SeenState]]:
    for part, files in held.items():
        yield from ((name, seen_of(node.path, is_alone=part in BY_ITSELF)) for name, node in files.nodes.items())


def _soaked(folder: Path) -> tuple[list[Soaked], list[tuple[str, Unfitness]]]:
    """What soaks came to, and the files that cannot be read."""
    found: list[Soaked] = []
    lost: list[tuple[str, Unfitness]] = []
    for path in sorted(_files(folder)):
        try:
            found.append(soaked(path))
        except FileError as error:
            lost.append((path.name, Unfitness(why="missing", words=f"{SOAK}: {error}")))
    return found, lost


def _of_soaks(soaks: Sequence[Soaked]) -> Iterator[tuple[str, Unfitness]]:
    for each in soaks:
        yield from ((each.member, Unfitness(why="drift", words=words)) for words in each.wrong)


def _of_places(places: Sequence[tuple[str, SeenState]]) -> Iterator[tuple[str, Unfitness]]:
    for name, seen in places:
        yield from ((name, Unfitness(why=why, words=words, advice=advice)) for why, words, advice in seen.wrong)


def _warnings(places: Sequence[tuple[str, SeenState]]) -> list[str]:
    return [*dict.fromkeys(f"{name}: {each}" for name, seen in places for each in seen.warnings)]


def _once(reasons: list[Unfitness]) -> list[Unfitness]:
    """What is so of several parts stands once."""
    return list({(each.why, each.words): each for each in reasons}.values())


def _of_fleets(fleets: Mapping[CertifiedPart, Fleet]) -> Iterator[tuple[str, Unfitness]]:
    """Each beside its peers."""
    for part, fleet in fleets.items():
        yield from ((each.node, why) for each in fleet.unhealthy for why in _reasons(part, fleet, each))
        absent = dict.fromkeys(fleet.missing, "it left no results file") | fleet.unreadable
        yield from ((name, Unfitness(why="missing", words=f"{part}: {words}")) for name, words in absent.items())
        failing = "; ".join(sorted({case.reason or "" for case in fleet.cases if case.is_failed}))
        for name in fleet.nodes if failing else ():
            yield name, Unfitness(why="unmeasured", words=f"{part}: {failing}")


def _reasons(part: CertifiedPart, fleet: Fleet, found: NodeFindings) -> Iterator[Unfitness]:
    """One, or of a node that is slow and has other outputs one for each."""
    kinds = [found]
    if found.outlying and found.deviations:
        outputs = NodeFindings(
            node=found.node, file=found.file, outlying=[], unmeasured={}, unlike=[], deviations=found.deviations
        )
        kinds = [msgspec.structs.replace(found, deviations={}), outputs]
    for each in kinds:
        why: Why = "slow" if each.outlying else "output" if each.deviations else "unmeasured"
        yield Unfitness(why=why, words=f"{part}: {'; '.join(node_words(fleet, each))}")


def _of_outputs(held: Mapping[CertifiedPart, FleetFiles]) -> Iterator[tuple[str, Unfitness]]:
    """Of GPUs that gave other bits in one part than in all others: each is measured alone and together."""
    both = [(part, files) for part, files in held.items() if OF_PART[part] == "GPU"]
    known = Vocabulary(cases={key: case for _, files in both for key, case in files.known.cases.items()})
    seen = {f"{part} {name}": (part, name, node) for part, files in both for name, node in files.nodes.items()}
    nodes = {each: node for each, (_, _, node) in seen.items()}
    for each in deviating_of(nodes, known) if len(both) > 1 else ():
        part, name, _ = seen[each]
        yield name, Unfitness(why="output", words=f"{part}: its outputs are not those of the others, to the last bit")


def _among(held: Mapping[CertifiedPart, FleetFiles], theirs: Mapping[CertifiedPart, FleetFiles]) -> Iterator[Placed]:
    """Of the parts that both have."""
    for part in held.keys() & theirs.keys():
        yield from _placed(part, held[part], theirs[part])


def _placed(part: CertifiedPart, own: FleetFiles, theirs: FleetFiles) -> Iterator[Placed]:
    """Each of the members among those of the population and all others that are judged."""
    known = Vocabulary(cases=theirs.known.cases | own.known.cases)
    before = {f"{THEIRS}{name}": node for name, node in theirs.nodes.items()}
    nodes = before | own.nodes
    judged = judged_of(nodes, known)
    peers = peers_of(nodes, kinds_of(nodes))
    allowed = limits_of(judged, known.cases, peers)
    for key, metrics in judged.items():
        for metric, values in metrics.items():
            for name in own.nodes.keys() & values.keys():
                limit, value = allowed[key, metric, peers[name]], values[name]
                others = [values[each].time_s for each in before.keys() & values.keys() if peers[each] == peers[name]]
                if others:
                    yield Placed(
                        part=part,
                        member=name,
                        case=known.cases[key],
                        metric=metric,
                        time_s=value.time_s,
                        median_s=limit.median_s,
                        percentile=sum(each < value.time_s for each in others) / len(others),
                        members=len(others),
                        limit=limit.ratio,
                        is_slow=limit.is_exceeded(name, value.least_s),
                    )


def _of_populations(placed: Sequence[Placed]) -> Iterator[tuple[str, Unfitness]]:
    """Of who is slower than its kind in the population."""
    for each in placed:
        if each.is_slow:
            ratio, case = shown_ratio(each.time_s / each.median_s), name_of(each.case, with_place=False)
            words = f"{each.part}: {ratio} times as long as the population in {case}"
            yield each.member, Unfitness(why="slow", words=words)
