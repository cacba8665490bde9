"""What most nodes of a fleet have in common, and what some have otherwise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from primbench.environment.comparable import meaning_of
from primbench.environment.words import are_alike
from primbench.fleet.findings import Unlike, Varied
from primbench.fleet.node import UNKNOWN
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.fleet.node import FleetNode, Vocabulary


MEASURED_BY = FactId("primbench_version")  # moves results as what a rule knows does


def moves_results(field: FactId) -> bool:
    """Whether it is known to."""
    return field == MEASURED_BY or meaning_of(field).rule is not None


class Majority:
    """The value of each field that more nodes have than any other, and whether that is more than half of them.

    Of nodes on which a worker looked around: of others too little is known.
    """

    def __init__(self, nodes: Mapping[str, FleetNode], known: Vocabulary) -> None:
        self._known = known
        seen = [node for node in nodes.values() if node.traits]
        self._seen = len(seen)
        counts = Counter(number for node in seen for number in node.traits)
        of_field: dict[FactId, list[tuple[Any, int]]] = {}
        for number, count in counts.items():
            name, value = known.traits[number]
            of_field.setdefault(name, []).append((value, count))
        self._commonest: dict[FactId, tuple[Any, int]] = {}
        for name, found in of_field.items():
            without = self._seen - sum(count for _, count in found)
            self._commonest[name] = max([*found, (None, without)], key=lambda each: each[1])

    def unlike(self, node: FleetNode) -> list[Unlike]:
        """What the node has otherwise than most; of what one of them does not know nothing is told."""
        return [each for each in self._unlike(node) if 2 * each.nodes > self._seen]

    def _unlike(self, node: FleetNode) -> list[Unlike]:
        """The same of what the commonest value is, be that of most nodes or not."""
        own = self._known.traits_of(node)
        others = self._commonest.keys() - own.keys() if own else ()
        return [
            Unlike(field=name, value=own.get(name), usual=usual, nodes=count, rule=meaning_of(name).rule)
            for name in (*own, *others)
            for usual, count in [self._commonest[name]]
            if not are_alike(name, own.get(name), usual) and UNKNOWN not in (own.get(name), usual)
        ]

    def varied(self, nodes: Mapping[str, FleetNode]) -> list[Varied]:
        """The fields in which nodes differ, of those that are known to move results, and that some have in common."""
        others: dict[FactId, list[tuple[Any, list[str]]]] = {}
        for name, node in nodes.items():
            for each in self._unlike(node):
                if each.nodes > 1 and moves_results(each.field):
                    _add(others.setdefault(each.field, []), each.value, name)
        return [
            Varied(field=field, usual=usual, nodes=count, others=found)
            for field, found in others.items()
            for usual, count in [self._commonest[field]]
        ]


def _add(found: list[tuple[Any, list[str]]], value: Any, name: str) -> None:
    """Values need not be hashable."""
    nodes = next((nodes for known, nodes in found if known == value), None)
    if nodes is None:
        found.append((value, [name]))
    else:
        nodes.append(name)
