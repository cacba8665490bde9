"""Case by case over the nodes of a fleet: their spread, and who stands out or did not measure."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from primbench.compare.criteria import are_one, is_its_own, margins_of
from primbench.fleet.findings import NodeFindings, OfCase, OfMetric, Outlying, Unlike
from primbench.fleet.outliers import Limit, Spread, limits
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.fleet.kinds import Peers
    from primbench.fleet.node import FleetNode, NodeValue, Vocabulary
    from primbench.spec.case import Case

JudgedValues = dict[bytes, dict[str, dict[str, "NodeValue"]]]
"""Case -> metric -> node -> value, of all that a node may stand out by; the primary metric first."""
JudgedLimits = dict[tuple[bytes, str, "str | None"], Limit]
"""Of a case and metric, and the kind of nodes that are judged among themselves; None is all nodes."""
EMPTY = "it holds no case, and no other one does"
NOT_RUN = "not run: its node died, was stopped, or still measures"


def judged_of(nodes: Mapping[str, FleetNode], known: Vocabulary) -> JudgedValues:
    """Each case by its medians, and by the mean of the samples of the first one, in which a quota shows."""
    return {key: _judging(_values(nodes, key)) for key in known.cases}


def _values(nodes: Mapping[str, FleetNode], key: bytes) -> dict[str, dict[str, NodeValue]]:
    values: dict[str, dict[str, NodeValue]] = {}
    for name, node in nodes.items():
        if key in node.cases:
            for metric, value in node.cases[key].metrics.items():
                values.setdefault(metric, {})[name] = value
    return values


def _judging(values: Mapping[str, dict[str, NodeValue]]) -> dict[str, dict[str, NodeValue]]:
    """Those first that most nodes have, of these in the order of preference."""
    ordered = sorted(values, key=lambda name: -len(values[name]))
    medians = [name for name in ordered if METRICS[name].is_median]
    means = [
        name
        for name in ordered
        for first in medians[:1]
        if METRICS[name].is_mean and METRICS[name].samples_of == first and not _are_one(values[name], values[first])
    ]
    return {name: values[name] for name in (*medians, *means)}


def _are_one(one: Mapping[str, NodeValue], other: Mapping[str, NodeValue]) -> bool:
    """As where each node gives one sample, whose mean is its median, with as little noise of its own."""
    return all(
        are_one({name: of(each) for name, each in one.items()}, {name: of(each) for name, each in other.items()})
        for of in (attrgetter("time_s"), attrgetter("least_s"))
    )


def limits_of(judged: JudgedValues, cases: Mapping[bytes, Case], peers: Peers) -> JudgedLimits:
    """From where on nodes stand out, as margins and false alarms allow."""
    margins = {key: margins_of(cases[key]) for key in judged}
    tests = {
        (key, metric, kind): Spread(
            times_s=[value.time_s for name, value in values.items() if kind in (None, peers[name])],
            margin=margins[key][metric],
            group=(kind, "means" if METRICS[metric].is_mean else is_its_own(cases[key].primitive, metric)),
        )
        for key, metrics in judged.items()
        for metric, values in metrics.items()
        for kind in dict.fromkeys(peers[name] for name in values)
    }
    return limits(tests)


def cases_of(
    nodes: Mapping[str, FleetNode], known: Vocabulary, judged: JudgedValues, limits: JudgedLimits, peers: Peers
) -> list[OfCase]:
    """In the order in which nodes had them first."""
    return [
        _case(key, nodes, case, list(_metrics(key, case, judged[key], limits, peers)))
        for key, case in known.cases.items()
    ]


def _metrics(
    key: bytes, case: Case, judged: Mapping[str, dict[str, NodeValue]], limits: JudgedLimits, peers: Peers
) -> Iterator[OfMetric]:
    """A row for each kind that is judged among its own."""
    margins = margins_of(case)
    for place, (metric, values) in enumerate(judged.items()):
        for kind, of_kind in _by_peers(values, peers):
            limit = limits[key, metric, kind]
            slowest = max(of_kind, key=lambda name: of_kind[name].time_s)
            yield OfMetric(
                metric=metric,
                primary=place == 0,
                nodes=len(of_kind),
                median_s=limit.median_s,
                scatter=limit.scatter,
                margin=margins[metric],
                limit=limit.ratio,
                slowest=slowest,
                ratio=of_kind[slowest].time_s / limit.median_s,
                kind=kind,
            )


def _case(key: bytes, nodes: Mapping[str, FleetNode], case: Case, metrics: list[OfMetric]) -> OfCase:
    unmeasured = {name: reason for name, node in nodes.items() if (reason := _reason(node, key)) is not None}
    return OfCase(
        case=case,
        metrics=metrics,
        unmeasured=unmeasured if metrics else {},
        reason=None if metrics else "; ".join(dict.fromkeys(unmeasured.values())) or "not timed",
        is_failed=not metrics and any(key in node.cases and node.cases[key].is_failed for node in nodes.values()),
    )


def _reason(node: FleetNode, key: bytes) -> str | None:
    """Why the node has not measured a case; None where it has."""
    return node.cases[key].reason if key in node.cases else NOT_RUN


def _by_peers(values: Mapping[str, NodeValue], peers: Peers) -> Iterator[tuple[str | None, dict[str, NodeValue]]]:
    """The values of those that are judged among the same nodes, kinds by name and then what is beside all."""
    for kind in sorted({peers[name] for name in values}, key=lambda kind: (kind is None, kind or "")):
        yield kind, {name: value for name, value in values.items() if peers[name] == kind}


def unhealthy(
    nodes: Mapping[str, FleetNode],
    cases: Sequence[OfCase],
    outlying: Mapping[str, list[Outlying]],
    unlike: Mapping[str, list[Unlike]],
) -> Iterator[NodeFindings]:
    """The nodes in which something is wrong, those first that are slower by most."""
    found = []
    for name, node in nodes.items():
        unmeasured = {number: case.unmeasured[name] for number, case in enumerate(cases) if name in case.unmeasured}
        damage = node.damage or (None if cases else EMPTY)
        if outlying.get(name) or unmeasured or damage:
            found.append(
                NodeFindings(
                    node=name,
                    file=node.path.name,
                    outlying=outlying.get(name, []),
                    unmeasured=unmeasured,
                    unlike=unlike.get(name, []),
                    damage=damage,
                )
            )
    yield from sorted(found, key=lambda each: -max((one.ratio for one in each.outlying), default=0.0))


def outlying_of(judged: JudgedValues, limits: JudgedLimits, peers: Peers) -> dict[str, list[Outlying]]:
    """Node -> in what it is slower than its own sampling noise, the scatter of the others and the margin explain."""
    found: dict[str, list[Outlying]] = {}
    for number, (key, metrics) in enumerate(judged.items()):
        for metric, values in metrics.items():
            for name, value in values.items():
                limit = limits[key, metric, peers[name]]
                if limit.ratio is not None and value.least_s > limit.ratio * limit.median_s:
                    found.setdefault(name, []).append(
                        Outlying(
                            case=number,
                            metric=metric,
                            time_s=value.time_s,
                            ratio=value.time_s / limit.median_s,
                            kind=peers[name],
                        )
                    )
    return found
