"""What a fleet comes to: its cases, the nodes in which something is wrong, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.fleet.against import against
from primbench.fleet.explain import with_causes
from primbench.fleet.findings import Fleet
from primbench.fleet.majority import Majority, varied
from primbench.fleet.outliers import FALSE_ALARMS
from primbench.fleet.summary import cases_of, limits_of, unhealthy

if TYPE_CHECKING:
    from primbench.fleet.held import Read


def summarize(folder: str, held: Read, earlier: tuple[str, Read] | None = None) -> Fleet:
    """All nodes side by side. folder: by name. earlier: the same of a fleet to set beside it."""
    members, known, judged = held
    limits = limits_of(judged, known.cases)
    cases = cases_of(members.nodes, known, judged, limits)
    majority = Majority(members.nodes, known)
    unlike = {name: majority.unlike(node) for name, node in members.nodes.items()}
    found = list(unhealthy(members.nodes, cases, judged, limits, unlike))
    return Fleet(
        folder=folder,
        nodes=list(members.nodes),
        missing=members.missing,
        unnamed=members.unnamed,
        unreadable=members.unreadable,
        false_alarms=FALSE_ALARMS,
        cases=cases,
        unhealthy=with_causes(found, members.nodes, cases, unlike),
        varied=varied(unlike),
        notes=[f"{name}: replaced by a later file of its node" for name in members.replaced],
        against=against(*earlier, held) if earlier else None,
    )
