"""Measuring between nodes of a fleet, with ``--links``: two at a time, each with another one in the next round."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

import primbench.suites as suites
from primbench.cli.echo import say
from primbench.cli.given import method_here, placement_of
from primbench.cli.measuring import measured, writing
from primbench.distributed.followers import Leader, follow
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.fleet.folder import LINKS
from primbench.fleet.links import Meeting, number_of, pairs, partners
from primbench.results.writer import header
from primbench.workers.plan import plan

if TYPE_CHECKING:
    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here
    from primbench.fleet.links import Met
    from primbench.spec.fleet import Member

SUITE = "links"
BACKEND = "torch"  # whose ranks may be on several hosts


def check(here: Here, rounds: int | None) -> None:
    """Raises InvalidRequest where the links cannot be measured from here, before anything else is."""
    if rounds is None:
        return
    try:
        plan(
            _entries(),
            backends=[BACKEND],
            device=here.where.device,
            method=method_here(here.how),
            placement=placement_of(here.where),
            processes=1,
        )
    except PrimbenchError as error:
        raise InvalidRequest(f"--links: between nodes {BACKEND} measures: {error}") from None


def _entries() -> Entries:
    return [(entry.problem, entry.labels) for entry in suites.read(SUITE)]


def come(found: Member, results: Path, rounds: int | None) -> Meeting | None:
    """Before a node measures itself, so that others know of it; None without --links. Raises OutputError."""
    if rounds is None:
        return None
    return Meeting(results.parent / LINKS, number_of(found), name=found.name, results=results.name)


def measure_between(meeting: Meeting, found: Member, here: Here, rounds: int, patience_s: float) -> None:
    """Whoever does not come, or is lost meanwhile, costs its own links. patience_s: for one case of another node.

    Between two others there are several, and no file of one that follows grows meanwhile.
    """
    own, folder = meeting.number, Path(str(here.record.output)).parent / LINKS
    how = replace(here.how, backends=(BACKEND,), roof=False, trace=False)
    total = pairs(found.of, rounds)
    patience_s += how.timeout_s * (len(_entries()) - 1)
    for other in partners(own, found.of, rounds):
        path = folder / f"{min(own, other)}-{max(own, other)}.jsonl"
        between = replace(here, how=how, record=replace(here.record, output=str(path), quiet=True))
        try:
            met = meeting.meet(other, patience_s)
            _measure(met, structs.replace(found, peer=met.name, of=total, nodes=""), between)
        except PrimbenchError as error:
            say(f"{found.name}: {error}", err=True)
            if own < other and not path.exists():
                _leave_empty(structs.replace(found, peer=meeting.name_of(other), of=total, nodes=""), between)


def _measure(met: Met, link: Member, here: Here) -> None:
    if met.listener is None:
        follow(met.world, verbose=here.record.verbose)
        return
    with Leader(met.world, met.listener) as leader:
        first = header(sys.argv, dict(here.record.labels), link)
        _, ended = measured(_entries(), here, leader, None, first)
    if ended is not None:
        raise ended


def _leave_empty(link: Member, here: Here) -> None:
    """A file without a record, by which the link has a name where it was not measured."""
    first = header([], dict(here.record.labels), link)
    with writing(here.record, None, first, overwrite=here.exports.overwrite):
        pass
