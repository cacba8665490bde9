"""What most nodes of a fleet have in common, and what some have otherwise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from primbench.environment.comparable import meaning_of
from primbench.environment.words import are_alike
from primbench.fleet.findings import Unlike, Varied
from primbench.fleet.node import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.fleet.node import Node, Vocabulary


MEASURED_BY = "primbench_version"  # moves results as what a rule knows does


def moves_results(field: str) -> bool:
    """Whether it is known to."""
    return field == MEASURED_BY or meaning_of(field).rule is not None


class Majority:
    """The value of each field that more than half of the nodes have, where there is one.

    Of nodes on which a worker looked around: of others too little is known.
    """

    def __init__(self, nodes: Mapping[str, Node], known: Vocabulary) -> None:
        self._known = known
        seen = [node for node in nodes.values() if node.traits]
        counts = Counter(number for node in seen for number in node.traits)
        having: Counter[str] = Counter()
        self._usual: dict[str, tuple[Any, int]] = {}
        for number, count in counts.items():
            name, value = known.traits[number]
            having[name] += count
            if 2 * count > len(seen):
                self._usual[name] = (value, count)
        for name, count in having.items():
            if 2 * count < len(seen):
                self._usual[name] = (None, len(seen) - count)

    def unlike(self, node: Node) -> list[Unlike]:
        """What the node has otherwise than most; of what one of them does not know nothing is told."""
        own = self._known.traits_of(node)
        others = self._usual.keys() - own.keys() if own else ()
        names = [name for name in (*own, *others) if name in self._usual]
        return [
            Unlike(field=name, value=own.get(name), usual=usual, nodes=count, rule=meaning_of(name).rule)
            for name in names
            for usual, count in [self._usual[name]]
            if not are_alike(name, own.get(name), usual) and UNKNOWN not in (own.get(name), usual)
        ]


def varied(unlike: Mapping[str, list[Unlike]]) -> list[Varied]:
    """The fields in which nodes differ, of those that are known to move results. unlike: of every node, by name."""
    usual: dict[str, Any] = {}
    others: dict[str, list[tuple[Any, list[str]]]] = {}
    for name, of_node in unlike.items():
        for each in of_node:
            if moves_results(each.field):
                usual[each.field] = each.usual
                found = others.setdefault(each.field, [])
                nodes = next((nodes for value, nodes in found if value == each.value), None)
                if nodes is None:
                    found.append((each.value, [name]))
                else:
                    nodes.append(name)
    return [Varied(field=field, usual=usual[field], others=found) for field, found in others.items()]
