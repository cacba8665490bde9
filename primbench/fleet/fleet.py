"""What a fleet comes to: its cases, the nodes in which something is wrong, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.fleet.against import against
from primbench.fleet.explain import with_causes
from primbench.fleet.findings import Fleet
from primbench.fleet.held import LINKS
from primbench.fleet.kinds import kinds_of, peers_of
from primbench.fleet.majority import Majority
from primbench.fleet.outliers import FALSE_ALARMS
from primbench.fleet.summary import cases_of, limits_of, outlying_of, unhealthy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from primbench.fleet.held import Read
    from primbench.fleet.node import FleetNode

OTHER_BOOT = ", of another boot: it was restarted between the two, or two machines have this name"


def summarize(
    folder: str, held: Read, earlier: tuple[str, Read] | None = None, links: Read | None = None, what: str | None = None
) -> Fleet:
    """All nodes side by side. folder: by name. earlier: the same of a fleet to set beside it. links: between its nodes,
    which are summed up as a fleet is: a link is what has a file of its own. what: else nodes, or each node's GPUs.
    """
    members, known, judged = held
    what = what or _what_they_are(members.nodes)
    kinds = kinds_of(members.nodes)
    peers = peers_of(members.nodes, kinds)
    limits = limits_of(judged, known.cases, peers)
    cases = cases_of(members.nodes, known, judged, limits, peers)
    majority = Majority(members.nodes, known)
    unlike = {name: majority.unlike(node) for name, node in members.nodes.items()}
    found = list(unhealthy(members.nodes, cases, outlying_of(judged, limits, peers), unlike))
    return Fleet(
        folder=folder,
        nodes=list(members.nodes),
        missing=members.missing,
        unnamed=members.unnamed,
        unreadable=members.unreadable,
        false_alarms=FALSE_ALARMS,
        cases=cases,
        unhealthy=with_causes(found, members.nodes, cases, unlike, peers),
        varied=majority.varied(members.nodes),
        kinds=kinds,
        notes=[
            f"{name}: replaced by a later file of its {what}" + ("" if is_same else OTHER_BOOT)
            for name, is_same in members.replaced.items()
        ],
        against=against(*earlier, held) if earlier else None,
        what=what,
        ends=_slow_ends(members.nodes, {each.node for each in found if each.outlying}),
        links=None if links is None else summarize(f"{folder}/{LINKS}", links, what="link"),
    )


def _what_they_are(nodes: Mapping[str, FleetNode]) -> str:
    return "node" if any(node.member.task is None for node in nodes.values()) else "GPU"


def _slow_ends(links: Mapping[str, FleetNode], slow: Collection[str]) -> list[str]:
    """Nodes with several links, all of which are slow."""
    of_ends: dict[str, list[str]] = {}
    for name, link in links.items():
        if link.member.peer is not None:
            for end in (link.member.node, link.member.peer):
                of_ends.setdefault(end, []).append(name)
    return [end for end, names in of_ends.items() if len(names) > 1 and set(slow).issuperset(names)]
