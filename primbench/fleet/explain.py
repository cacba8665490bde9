"""Why a node stands out: its file beside those of nodes that are as most are, as a comparison sets places apart."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, CaseComparison, Explanation
from primbench.compare.effects import differences
from primbench.compare.explain import explained
from primbench.compare.ratio import Estimate
from primbench.compare.runs import side_of
from primbench.compare.sides import Side, identity
from primbench.results.file import read_in_part
from primbench.results.metrics import METRICS
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.fleet.findings import NodeFindings, OfCase, Outlying, Unlike
    from primbench.fleet.kinds import Peers
    from primbench.fleet.node import FleetNode

_Told = TypeVar("_Told", str, FactId)
MOST = "most nodes"
MOST_OF_KIND = "most of its kind"
TYPICAL = 3  # nodes that stand for most of them
MOST_EXPLAINED = 20


def with_causes(
    found: Sequence[NodeFindings],
    nodes: Mapping[str, FleetNode],
    cases: Sequence[OfCase],
    unlike: Mapping[str, list[Unlike]],
    peers: Peers,
) -> list[NodeFindings]:
    """The nodes with causes, of the first MOST_EXPLAINED that are slower; none where no node of its kind is healthy."""
    healthy = nodes.keys() - {each.node for each in found}
    slower = [each.node for each in found if each.outlying][:MOST_EXPLAINED]
    baselines = {kind: _baseline(kind, healthy, nodes, unlike, peers) for kind in {peers[name] for name in slower}}
    of_node = {name: baseline for name in slower if (baseline := baselines[peers[name]]) is not None}
    return [
        _explained(each, nodes[each.node], cases, of_node[each.node]) if each.node in of_node else each
        for each in found
    ]  # fmt: skip


def _baseline(
    kind: str | None,
    healthy: Iterable[str],
    nodes: Mapping[str, FleetNode],
    unlike: Mapping[str, list[Unlike]],
    peers: Peers,
) -> Side | None:
    """Typical nodes of the kind, or of all; None where none is healthy."""
    typical = _typical([name for name in healthy if kind in (None, peers[name])], unlike)
    return _side([nodes[name] for name in typical], MOST if kind is None else MOST_OF_KIND) if typical else None


def _typical(names: Iterable[str], unlike: Mapping[str, list[Unlike]]) -> list[str]:
    """Those that have the least otherwise than most."""
    return sorted(names, key=lambda name: (len(unlike[name]), name))[:TYPICAL]


def _side(nodes: Sequence[FleetNode], name: str) -> Side:
    return side_of([read_in_part(node.path)[0] for node in nodes], name)


def _explained(found: NodeFindings, node: FleetNode, cases: Sequence[OfCase], baseline: Side) -> NodeFindings:
    side = _side([node], found.node)
    arm = ArmComparison(
        name=found.node,
        arm=None,
        effect=None,
        differences=differences(baseline, side),
        cases=_slower(found, cases, baseline, side),
        mean=None,
    )
    told = [case.explanation for case in explained(arm, baseline, side).cases if case.explanation]
    return replace(
        found,
        evidence=_once([*each.evidence, *each.noise] for each in told),
        causes=_once(each.causes for each in told),
        likely=_likeliest([each for each in told if each.likely]),
        about=_once(each.about for each in told),
    )


def _likeliest(told: Sequence[Explanation]) -> str | None:
    """In words the cause that is likely in the most cases, as in the first of these."""
    often = Counter(each.cause for each in told)
    return max(told, key=lambda each: often[each.cause]).likely if told else None


def _once(found: Iterable[list[_Told]]) -> list[_Told]:
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def _slower(found: NodeFindings, cases: Sequence[OfCase], baseline: Side, side: Side) -> list[CaseComparison]:
    """The cases in which the node stands out, as comparisons in which that is certain."""
    metrics: dict[int, list[Outlying]] = {}
    for each in found.outlying:
        metrics.setdefault(each.case, []).append(each)
    both = baseline.cases.keys() & side.cases.keys()
    return [
        CaseComparison(
            case=cases[number].case,
            estimates=[_estimate(each, cases[number]) for each in outlying],
            verdict="slower",
            decided_by=max(outlying, key=lambda each: (not METRICS[each.metric].is_tail, each.ratio)).metric,
        )
        for number, outlying in metrics.items()
        if identity(cases[number].case) in both
    ]


def _estimate(found: Outlying, case: OfCase) -> Estimate:
    of = next(each for each in case.metrics if (each.metric, each.kind) == (found.metric, found.kind))
    return Estimate(
        metric=found.metric,
        primary=of.primary,
        judges=True,
        pairs=1,
        baseline_s=of.median_s,
        arm_s=found.time_s,
        ratio=found.ratio,
        interval=(found.ratio, found.ratio),
        margin=of.margin,
        q=0.0,
        outcome="slower",
    )
