"""A fleet beside itself at an earlier time: how it changed as a whole, and which nodes changed otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from primbench import stats
from primbench.compare.criteria import margins_of
from primbench.compare.sides import identity
from primbench.environment.words import are_alike
from primbench.fleet.findings import FALSE_ALARMS_OF_CHANGE, Against, Altered, MetricChange
from primbench.fleet.majority import moves_results
from primbench.fleet.node import UNKNOWN
from primbench.fleet.outliers import Limit, Spread, limits
from primbench.spec.method import Method

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.fleet.folder import FleetFiles
    from primbench.fleet.kinds import Peers
    from primbench.fleet.node import NodeValue, Vocabulary
    from primbench.spec.case import Case
    from primbench.system.meaning import FactId


Test = tuple[bytes, str, "str | None"]
"""A case, a metric, and the kind of nodes that are judged among themselves; None is all nodes."""


def against(folder: str, before: FleetFiles, now: FleetFiles, peers: Peers) -> Against:
    """folder: of the earlier one, by name. peers: among which each node's change is judged."""
    tests = dict(_tests(before, now, peers))
    numbers = {key: number for number, key in enumerate(now.known.cases)}
    changes = []
    for (key, metric, kind), limit in limits(tests, FALSE_ALARMS_OF_CHANGE).items():
        of_kind = {name: value for name, value in now.judged[key][metric].items() if peers[name] == kind}
        values = before.judged[key][metric], of_kind
        changes.append(_change(numbers[key], metric, values, limit, tests[key, metric, kind]))
    return Against(
        folder=folder,
        changes=_adjusted(changes),
        altered=_altered(before, now),
        methods=list(dict.fromkeys(_methods(before.known, now.known))),
        come=[name for name in now.nodes if name not in before.nodes],
        gone=[name for name in before.nodes if name not in now.nodes],
    )


def _tests(before: FleetFiles, now: FleetFiles, peers: Peers) -> Iterator[tuple[Test, Spread]]:
    """How each node changed, of those in both, beside the others of its kind."""
    for key, metrics in now.judged.items():
        margins = margins_of(now.known.cases[key])
        for metric, values in metrics.items():
            ratios = _changes(before.judged.get(key, {}).get(metric, {}), values)
            for kind in dict.fromkeys(peers[name] for name in ratios):
                own = {name: ratio for name, ratio in ratios.items() if kind in (None, peers[name])}
                yield (key, metric, kind), Spread(own, margins[metric], (kind, metric), kind)


def _adjusted(changes: Sequence[MetricChange]) -> list[MetricChange]:
    """With the q that each has among them, in place of its own p."""
    qs = stats.benjamini_hochberg([each.q for each in changes])
    return [replace(each, q=q) for each, q in zip(changes, qs, strict=True)]


def _methods(before: Vocabulary, now: Vocabulary) -> Iterator[str]:
    then = {_problem(case): case.method for case in before.cases.values()}
    for key, case in now.cases.items():
        if key not in before.cases and (was := then.get(_problem(case))) is not None:
            own = asdict(case.method)
            yield from (f"{name} {value}, now {own[name]}" for name, value in asdict(was).items() if value != own[name])


def _problem(case: Case) -> bytes:
    """The same of cases that are measured in different ways."""
    return identity(replace(case, method=Method()))


def _altered(before: FleetFiles, now: FleetFiles) -> list[Altered]:
    """What each node has otherwise than it had, alike changes together."""
    found: dict[tuple[FactId, str, str], Altered] = {}
    for name, node in now.nodes.items():
        then = before.known.traits_of(before.nodes[name]) if name in before.nodes else {}
        own = now.known.traits_of(node)
        for field, was, value in _different(then, own) if then and own else ():
            alike = found.setdefault(
                (field, repr(was), repr(value)), Altered(field=field, before=was, now=value, nodes=[])
            )
            alike.nodes.append(name)
    return sorted(found.values(), key=lambda each: -len(each.nodes))


def _different(before: Mapping[FactId, Any], now: Mapping[FactId, Any]) -> Iterator[tuple[FactId, Any, Any]]:
    for field in dict.fromkeys([*now, *before]):
        values = before.get(field), now.get(field)
        if not are_alike(field, *values) and UNKNOWN not in values and moves_results(field):
            yield field, *values


def _changes(before: Mapping[str, NodeValue], now: Mapping[str, NodeValue]) -> dict[str, float]:
    """Node -> ratio, of those that measured it both times."""
    return {name: now[name].time_s / before[name].time_s for name in now if name in before}


def _change(
    number: int,
    metric: str,
    values: tuple[Mapping[str, NodeValue], Mapping[str, NodeValue]],
    limit: Limit,
    spread: Spread,
) -> MetricChange:
    before, now = values
    both = [name for name in now if name in before]
    befores_s, nows_s = ([each[name].time_s for name in both] for each in (before, now))
    before_s, now_s = stats.quantile(befores_s, 0.5), stats.quantile(nows_s, 0.5)
    mean = stats.paired(nows_s, befores_s)
    return MetricChange(
        case=number,
        metric=metric,
        kind=spread.kind,
        nodes=len(both),
        before_s=before_s,
        now_s=now_s,
        ratio=now_s / before_s,
        interval=mean.interval(),
        q=mean.p_above(1 + spread.margin),
        margin=spread.margin,
        limit=limit.ratio,
        changed={
            name: now[name].time_s / before[name].time_s
            for name in both
            if limit.is_exceeded(name, now[name].least_s / before[name].time_s)
        },
    )
