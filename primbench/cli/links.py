"""Measuring between nodes of a fleet, with ``--links``: two at a time, each with another one in the next round."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

import primbench.suites as suites
from primbench.cli.echo import say
from primbench.cli.given import method_of, placement_of
from primbench.cli.measuring import measured, writing
from primbench.distributed.followers import Leader, follow
from primbench.distributed.links import Meeting, number_of, pairs, partners
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.fleet.folder import LINKS
from primbench.results.writer import header
from primbench.workers.plan import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.cli.measuring import Entries
    from primbench.distributed.links import Met
    from primbench.spec.fleet import Member

SUITE = "links"
BACKEND = "torch"  # whose ranks may be on several hosts


def check(values: Mapping[str, Any]) -> None:
    """Raises InvalidRequest where the links cannot be measured from here, before anything else is."""
    if values["links"] is None:
        return
    try:
        plan(
            _entries(),
            backends=[BACKEND],
            device=values["device"],
            method=method_of(values),
            placement=placement_of(values),
            processes=1,
        )
    except PrimbenchError as error:
        raise InvalidRequest(f"--links: between nodes {BACKEND} measures: {error}") from None


def _entries() -> Entries:
    return [(entry.problem, entry.labels) for entry in suites.read(SUITE)]


def come(found: Member, results: Path, values: Mapping[str, Any]) -> Meeting | None:
    """Before a node measures itself, so that others know of it; None without --links. Raises OutputError."""
    if values["links"] is None:
        return None
    return Meeting(Path(values["fleet"], LINKS), number_of(found), name=found.name, results=results.name)


def measure_between(meeting: Meeting, found: Member, values: Mapping[str, Any], patience_s: float) -> None:
    """Whoever does not come, or is lost meanwhile, costs its own links. patience_s: for one case of another node.

    Between two others there are several, and no file of one that follows grows meanwhile.
    """
    own, rounds = meeting.number, values["links"]
    total = pairs(found.of, rounds)
    patience_s += values["timeout"] * (len(_entries()) - 1)
    for other in partners(own, found.of, rounds):
        path = Path(values["fleet"], LINKS, f"{min(own, other)}-{max(own, other)}.jsonl")
        given = {**values, "output": str(path), "quiet": True, "backends": [BACKEND], "roof": False, "trace": False}
        try:
            met = meeting.meet(other, patience_s)
            _measure(met, replace(found, peer=met.name, of=total, nodes=""), given)
        except PrimbenchError as error:
            say(f"{found.name}: {error}", err=True)
            if own < other and not path.exists():
                _leave_empty(replace(found, peer=meeting.name_of(other), of=total, nodes=""), given)


def _measure(met: Met, link: Member, values: Mapping[str, Any]) -> None:
    if met.listener is None:
        follow(met.world, verbose=values["verbose"])
        return
    with Leader(met.world, met.listener) as leader:
        first = header(sys.argv, dict(values["labels"]), link)
        _, ended = measured(_entries(), values, leader, None, first)
    if ended is not None:
        raise ended


def _leave_empty(link: Member, values: Mapping[str, Any]) -> None:
    """A file without a record, by which the link has a name where it was not measured."""
    with writing(values, None, header([], dict(values["labels"]), link)):
        pass
