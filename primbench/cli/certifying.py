"""What `primbench certify` measures on a node: a process of its own for each member, one after the other or at once."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace as with_fields

import primbench.suites as suites
from primbench.baselines.named import name_of
from primbench.cli.echo import say
from primbench.cli.measuring import measured, writing
from primbench.cli.options import MOST_PROCESSES, Exports, Here, HowHere, Resumable, Where
from primbench.errors import FileError, PrimbenchError
from primbench.fleet.certificate import PARTS, SOAK
from primbench.fleet.links import partners
from primbench.fleet.member import member, narrowed, visible_gpus
from primbench.numa.scan import memory_nodes
from primbench.results.writer import header
from primbench.system.files import attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.cli.measuring import Entries
    from primbench.fleet.certificate import CertifiedPart
    from primbench.fleet.member import Gpus
    from primbench.spec.fleet import Member

SUITE = "certify"
POPULATIONS = Path(".primbench/certificates")
LEAST_S, MOST_S = 0.1, 0.5
ROUND_S = 20.0  # of a soak, between which a new process begins
MOST_ROUNDS = MOST_PROCESSES


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one process measures."""

    path: Path
    member: Member
    entries: Entries
    device: str
    variables: dict[str, str] = field(default_factory=dict)
    soak_s: float | None = None
    """For how long the entries are repeated; None measures them once."""
    round_s: float = 0.0
    """How long one of these is sampled."""
    most_rounds: int = 0


def measure(folder: Path, data: str | None, soak_s: float | None, *, overwrite: bool) -> bool:
    """This node into a folder; whether it is all that is to be measured, so that it can be judged at once.

    Raises FileError where the node was measured there before, or where the folder cannot be had.
    """
    found = member()
    if found is None:
        return False
    gpus = visible_gpus()
    steps = list(shares(folder, found, gpus, data, soak_s))
    for share in itertools.chain.from_iterable(at_once for _, at_once in steps):
        _make(share.path, overwrite=overwrite)
    for words, at_once in steps:
        say(f"{found.name}: {words}", err=True)
        _measure_at_once(at_once)
    if found.of > 1:
        say(f"This is {found.name}, 1 of {found.of}; once all have ended: primbench certify {folder} --read", err=True)
    return found.of == 1


def shares(
    folder: Path, found: Member, gpus: Gpus, data: str | None, soak_s: float | None
) -> Iterator[tuple[str, list[Share]]]:
    """What is measured, step by step: what each is, and what is measured at the same time."""
    yield "the host", [_host(folder, found, gpus, data)]
    of_gpus = [_gpu(found, gpus, number) for number in gpus.seen]
    entries = [*_entries("gpu"), *_near_nodes(_entries("gpu"))] if of_gpus else []
    for own, visible in of_gpus:
        yield f"{own.name} alone", [_share(folder, "alone", own, entries, visible)]
    if len(of_gpus) > 1:
        yield "all GPUs at once", [_share(folder, "together", own, entries, visible) for own, visible in of_gpus]
    yield from _links(folder, found, of_gpus)
    if soak_s is not None:
        yield "a soak", [_soak(folder, own, visible, soak_s) for own, visible in of_gpus or [(found, {})]]


def _soak(folder: Path, own: Member, visible: dict[str, str], soak_s: float) -> Share:
    share = _share(folder, SOAK, own, _entries("soak", "cpu" if own.task is None else "cuda"), visible)
    return replace(share, soak_s=soak_s, round_s=ROUND_S, most_rounds=MOST_ROUNDS)


def _links(
    folder: Path, found: Member, of_gpus: Sequence[tuple[Member, dict[str, str]]]
) -> Iterator[tuple[str, list[Share]]]:
    for number, pairs in enumerate(_rounds(len(of_gpus))):
        linked = [_link(folder, found, (of_gpus[one], of_gpus[other])) for one, other in pairs]
        yield f"links, round {number + 1}", linked


def _host(folder: Path, found: Member, gpus: Gpus, data: str | None) -> Share:
    own = _entries("host")
    entries = [*own, *_near_nodes(own), *([] if gpus.seen else _entries("cpu"))]
    variables = {} if data is None else {"TMPDIR": os.path.abspath(data)}
    return replace(_share(folder, "host", found, entries, variables), device="cpu")


def _entries(name: str, device: str | None = None) -> Entries:
    """Of a set of the suite, on one kind of device."""
    found = suites.read(SUITE, set=name)
    return [(each.problem, each.labels) for each in found if device in (None, each.labels.get("device", device))]


def _near_nodes(entries: Entries) -> Entries:
    """The copies that have memory of the host on one side, from and to each memory node, where there are several."""
    nodes = [each.id for each in attempt({}, "", memory_nodes) or [] if each.has_memory and each.allowed is not False]
    sides = {"h2d": ("src_node",), "d2h": ("dst_node",), "h2h": ("src_node", "dst_node")}
    return [
        (replace(problem, **dict.fromkeys(sides.get(str(problem.parameters().get("direction")), ()), node)), labels)
        for problem, labels in entries
        if problem.parameters().get("direction") in sides
        for node in (nodes if len(nodes) > 1 else ())
    ]


def _gpu(found: Member, gpus: Gpus, number: int) -> tuple[Member, dict[str, str]]:
    """A GPU as a member, and the variables by which a process sees it alone."""
    place = gpus.seen.index(number)
    count = len(gpus.seen)
    own = with_fields(found, task=number, rank=found.rank * count + place, of=found.of * count)
    return own, narrowed(own, gpus)


def _share(folder: Path, part: CertifiedPart, own: Member, entries: Entries, visible: dict[str, str]) -> Share:
    name = own.name.replace(":", "-").replace("/", "_")
    device = "cpu" if own.task is None else "cuda:0"
    return Share(path=folder / part / f"{name}.jsonl", member=own, entries=entries, device=device, variables=visible)


def _rounds(count: int) -> Iterable[list[tuple[int, int]]]:
    """Each GPU with each other one, once, as many at the same time as there are."""
    met = [list(partners(number, count, count)) for number in range(count)]
    for each in range(count - 1 + count % 2) if count > 1 else ():
        found = ((number, theirs[each]) for number, theirs in enumerate(met) if each < len(theirs))
        yield [pair for pair in found if pair[0] < pair[1]]


def _link(folder: Path, found: Member, ends: Sequence[tuple[Member, dict[str, str]]]) -> Share:
    """Between two GPUs. What is missing is told of the GPUs: how many links there are depends on these."""
    link = with_fields(ends[0][0], peer=f"gpu{ends[1][0].task}", of=found.of)
    visible = ",".join(visible.get("CUDA_VISIBLE_DEVICES", str(own.task)) for own, visible in ends)
    return _share(folder, "links", link, _entries("link"), {"CUDA_VISIBLE_DEVICES": visible})


def _make(path: Path, *, overwrite: bool) -> None:
    """Raises FileError where the folder cannot be had, or this was measured before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path.parent}: {error.strerror}") from None
    if overwrite:
        path.unlink(missing_ok=True)
    elif path.exists():
        raise FileError(f"{path}: exists; name another folder, or measure this node again with --overwrite")


def _measure_at_once(shares: Sequence[Share]) -> None:
    """What a process cannot measure is missing from its file, and judged so, be there nothing else in it."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_measure, args=(share,)) for share in shares]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    for share in shares:
        if not share.path.exists():
            record, first = Resumable(output=str(share.path)), header(sys.argv, {}, share.member)
            with writing(record, None, first, overwrite=True):
                pass


def _measure(share: Share) -> None:
    os.environ.update(share.variables)
    soak = share.soak_s
    how = HowHere(min_time_s=LEAST_S, max_time_s=MOST_S)
    if soak is not None:
        rounds = max(1, min(share.most_rounds, round(soak / share.round_s)))
        how = HowHere(min_time_s=share.round_s, max_time_s=share.round_s, processes=rounds, time_budget_s=soak)
    here = Here(
        where=Where(device=share.device),
        how=how,
        record=Resumable(output=str(share.path), quiet=True),
        exports=Exports(overwrite=True),
    )
    try:
        measured(share.entries, here, None, None, header(sys.argv, {}, share.member))
    except PrimbenchError as error:
        say(f"{share.member.name}: {error}", err=True)


def population(name: str) -> Path:
    """The folder of a population by its name, or another folder. Raises FileError."""
    kept = POPULATIONS / name
    if kept.is_dir():
        return kept
    if not Path(name).is_dir():
        names = ", ".join(sorted(each.name for each in POPULATIONS.glob("*/"))) or "none"
        raise FileError(f"--against {name}: no folder, nor a population in {POPULATIONS}: there is {names}")
    return Path(name)


def save(name: str, folder: Path) -> None:
    """Add what was measured to a population; who is in it already is replaced."""
    for part in PARTS:
        if (folder / part).is_dir():
            shutil.copytree(folder / part, POPULATIONS / name_of(name) / part, dirs_exist_ok=True)
