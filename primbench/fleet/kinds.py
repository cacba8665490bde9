"""Nodes of several kinds, which need not be equally fast: each is judged among its own, where these are enough."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import stats
from primbench.fleet.findings import KindOfNode
from primbench.fleet.outliers import FEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.fleet.findings import OfCase
    from primbench.fleet.node import FleetNode, MachineKind

Peers = dict[str, "str | None"]
"""Node -> the kind among which it is judged, by name; None: among all nodes."""


def kinds_of(nodes: Mapping[str, FleetNode]) -> list[KindOfNode]:
    """Those with the most nodes first; [] where all nodes are of one kind."""
    found: dict[MachineKind, list[str]] = {}
    for name, node in nodes.items():
        if node.kind is not None:
            found.setdefault(node.kind, []).append(name)
    if len(found) < 2:
        return []
    ordered = sorted(found.items(), key=lambda each: -len(each[1]))
    return [
        KindOfNode(
            name=_letters(number),
            cpu=kind.cpu,
            gpus=list(kind.gpus),
            driver=kind.driver,
            nodes=of_kind,
            is_enough=_are_enough(of_kind),
        )
        for number, (kind, of_kind) in enumerate(ordered)
    ]


def with_ratios(kinds: Sequence[KindOfNode], cases: Sequence[OfCase]) -> list[KindOfNode]:
    """How long each takes beside the first one: who is judged among its own is told nowhere else to be slow."""
    medians = [{each.kind: each.median_s for each in case.metrics if each.primary} for case in cases]
    return [
        replace(kind, ratio=stats.quantile(ratios, 0.5) if ratios and kind is not kinds[0] else None)
        for kind in kinds
        for ratios in [
            [each[kind.name] / each[kinds[0].name] for each in medians if {kind.name, kinds[0].name} <= each.keys()]
        ]
    ]


def _are_enough(nodes: Sequence[str]) -> bool:
    return len(nodes) >= FEWEST


def _letters(number: int) -> str:
    """A to Z, then AA and so on."""
    more, last = divmod(number, len(ascii_uppercase))
    return (_letters(more - 1) if more else "") + ascii_uppercase[last]


def peers_of(nodes: Mapping[str, FleetNode], kinds: Sequence[KindOfNode]) -> Peers:
    """Nodes of a kind that has too few stay beside all."""
    return dict.fromkeys(nodes) | {name: kind.name for kind in kinds if kind.is_enough for name in kind.nodes}
