"""What a fleet comes to: case by case the spread of its nodes, who stands out or did not measure, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.criteria import is_its_own, margins_of
from primbench.compare.outputs import Deviation, deviations
from primbench.fleet.against import against
from primbench.fleet.explain import with_causes
from primbench.fleet.findings import Fleet, NodeFindings, OfCase, OfMetric, Outlying, Unlike
from primbench.fleet.folder import LINKS
from primbench.fleet.kinds import kinds_of, peers_of, with_ratios
from primbench.fleet.majority import Majority
from primbench.fleet.outliers import FALSE_ALARMS, Limit, Spread, limits
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from primbench.fleet.folder import FleetFiles, JudgedValues
    from primbench.fleet.kinds import Peers
    from primbench.fleet.node import FleetNode, NodeValue, Vocabulary
    from primbench.spec.case import Case

JudgedLimits = dict[tuple[bytes, str, "str | None"], Limit]
"""Of a case and metric, and the kind of nodes that are judged among themselves; None is all nodes."""
EMPTY = "it holds no case, and no other one does"
OTHER_BOOT = ", of another boot: it was restarted between the two, or two machines have this name"
NOT_RUN = "not run: its node died, was stopped, or still measures"


def limits_of(judged: JudgedValues, cases: Mapping[bytes, Case], peers: Peers) -> JudgedLimits:
    """From where on nodes stand out, as margins and false alarms allow."""
    margins = {key: margins_of(cases[key]) for key in judged}
    tests = {
        (key, metric, kind): Spread(
            times_s={name: value.time_s for name, value in values.items() if kind in (None, peers[name])},
            margin=margins[key][metric],
            group=(kind, "means" if METRICS[metric].is_mean else is_its_own(cases[key].primitive, metric)),
            kind=kind,
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
    deviating: Mapping[str, dict[int, list[Deviation]]],
) -> Iterator[NodeFindings]:
    """The nodes in which something is wrong, those first that are slower by most."""
    found = []
    for name, node in nodes.items():
        unmeasured = {number: case.unmeasured[name] for number, case in enumerate(cases) if name in case.unmeasured}
        damage = node.damage or (None if cases else EMPTY)
        if any((outlying.get(name), unmeasured, damage, name in deviating)):
            found.append(
                NodeFindings(
                    node=name,
                    file=node.path.name,
                    outlying=outlying.get(name, []),
                    unmeasured=unmeasured,
                    unlike=unlike.get(name, []),
                    damage=damage,
                    deviations=deviating.get(name, {}),
                )
            )
    yield from sorted(found, key=lambda each: -max((one.ratio for one in each.outlying), default=0.0))


def deviating_of(nodes: Mapping[str, FleetNode], known: Vocabulary) -> dict[str, dict[int, list[Deviation]]]:
    """Node -> case -> outputs that are not what they are elsewhere, to the last bit."""
    found: dict[str, dict[int, list[Deviation]]] = {}
    for number, key in enumerate(known.cases):
        seen = [
            each._replace(place=name)
            for name, node in nodes.items()
            if key in node.cases
            for each in node.cases[key].outputs
        ]
        for each in deviations(seen):
            found.setdefault(each.place, {}).setdefault(number, []).append(each)
    return found


def outlying_of(judged: JudgedValues, limits: JudgedLimits, peers: Peers) -> dict[str, list[Outlying]]:
    """Node -> in what it is slower than its own sampling noise, the scatter of the others and the margin explain."""
    found: dict[str, list[Outlying]] = {}
    for number, (key, metrics) in enumerate(judged.items()):
        for metric, values in metrics.items():
            for name, value in values.items():
                limit = limits[key, metric, peers[name]]
                if limit.is_exceeded(name, value.least_s):
                    found.setdefault(name, []).append(
                        Outlying(
                            case=number,
                            metric=metric,
                            time_s=value.time_s,
                            ratio=value.time_s / limit.median_s,
                            kind=peers[name],
                            over_all=limit.suspects.get(name),
                        )
                    )
    return found


def summarize(
    folder: str,
    held: FleetFiles,
    earlier: tuple[str, FleetFiles] | None = None,
    links: FleetFiles | None = None,
    what: str | None = None,
) -> Fleet:
    """All nodes side by side. folder: by name. earlier: the same of a fleet to set beside it. links: between its nodes,
    which are summed up as a fleet is: a link is what has a file of its own. what: else nodes, or each node's GPUs.
    """
    nodes, known, judged = held.nodes, held.known, held.judged
    what = what or _what_they_are(nodes)
    kinds = kinds_of(nodes)
    peers = peers_of(nodes, kinds)
    allowed = limits_of(judged, known.cases, peers)
    cases = cases_of(nodes, known, judged, allowed, peers)
    majority = Majority(nodes, known)
    unlike = {name: majority.unlike(node) for name, node in nodes.items()}
    deviating = deviating_of(nodes, known)
    found = list(unhealthy(nodes, cases, outlying_of(judged, allowed, peers), unlike, deviating))
    return Fleet(
        folder=folder,
        nodes=list(nodes),
        missing=held.missing,
        unnamed=held.unnamed,
        unreadable=held.unreadable,
        false_alarms=FALSE_ALARMS,
        cases=cases,
        unhealthy=with_causes(found, nodes, cases, unlike, peers),
        varied=majority.varied(nodes),
        kinds=with_ratios(kinds, cases),
        notes=[
            f"{name}: replaced by a later file of its {what}" + ("" if is_same else OTHER_BOOT)
            for name, is_same in held.replaced.items()
        ],
        against=against(*earlier, held, peers) if earlier else None,
        what=what,
        ends=_slow_ends(nodes, {each.node for each in found if each.outlying}),
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
