"""A folder of a fleet as it was read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from primbench.fleet.folder import FleetMembers, read_members
from primbench.fleet.node import Vocabulary
from primbench.fleet.summary import JudgedValues, judged_of
from primbench.system.jsonlines import SUFFIXES

LINKS = "links"  # the folder, in that of a fleet, of what was measured between its nodes


class Read(NamedTuple):
    """judged: by what nodes may stand out."""

    members: FleetMembers
    known: Vocabulary
    judged: JudgedValues


def read(folder: str) -> Read:
    """Raises FileError where there is no fleet."""
    known = Vocabulary()
    members = read_members(folder, known)
    return Read(members, known, judged_of(members.nodes, known))


def read_links(folder: str) -> Read | None:
    """The same of what was measured between two nodes; None where that was nothing."""
    path = Path(folder, LINKS)
    return read(str(path)) if any(each.name.endswith(SUFFIXES) for each in path.glob("*")) else None
