"""A fleet for people and for other programs: a table of cases over nodes, then each node with something wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.fleet.headline import headline, is_told, since, tells, with_links
from primbench.fleet.outliers import FEWEST
from primbench.report.cautions import deviation_words
from primbench.report.document import Check, Document, Note, Section, Table
from primbench.report.environment import shown
from primbench.report.plain import MOST_NAMES, named
from primbench.report.verdicts import heading, signed
from primbench.spec.naming import name_of
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.fleet.findings import (
        Against,
        Fleet,
        KindOfNode,
        MetricChange,
        NodeFindings,
        OfCase,
        OfMetric,
        Varied,
    )
    from primbench.report.document import VerdictCell

ALL = "all"
MOST_NODES = 8
MOST_WORDS = 3
LIMIT = "too slow above"
FORMATS: dict[str, Callable[[float], str]] = {
    "median": format_time,
    "scatter": format_percent,
    "ratio": shown_ratio,
    LIMIT: shown_ratio,
}
MOST_ALTERED = 8


def document(fleet: Fleet) -> Document:
    """A row a case and metric: times in seconds, ratios of times. A check a node, missing ones included."""
    return Document(
        title="primbench",
        answer=Note(headline(fleet)),
        sections=lambda: [part for each in with_links(fleet) for part in _sections(each)],
        rows=lambda: [row for each in with_links(fleet) for row in _rows(each)],
        checks=lambda: [check for each in with_links(fleet) for check in _checks(each)],
        value={"headline": headline(fleet)} | asdict(fleet),
    )


def _sections(fleet: Fleet) -> list[Section]:
    changes = [changes_table(fleet, fleet.against)] if fleet.against else []
    tables = Section("", [_table(fleet), *changes])
    return [tables, Section("", [*map(Note, _of_nodes(fleet))]), Section("", [*_notes(fleet)])]


def _table(fleet: Fleet) -> Table:
    kind = ["kind"] if fleet.kinds else []
    rest = [f"{fleet.what}s", "median", "scatter", "slowest", "ratio", LIMIT, "verdict"]
    whose = "its kind" if fleet.kinds else f"all {fleet.what}s"
    return Table.of_rows(
        fleet.folder,
        ["case", "metric", *kind, *rest],
        list(_table_rows(fleet)),
        [*map(Note, _unmeasured(fleet))],
        how=f"ratio of times to the median of {whose}",
        formats=FORMATS,
    )


def _table_rows(fleet: Fleet) -> Iterator[list[object]]:
    """Each case by its first metric, and by others in which a node stands out; a row a kind of nodes."""
    outlying = _by_metric(fleet)
    for number, case in enumerate(fleet.cases):
        for each in case.metrics:
            slow = outlying.get((number, each.metric, each.kind), [])
            if each.primary or slow:
                name, kind = name_of(case.case) if each.primary else "", [each.kind or ALL] if fleet.kinds else []
                yield [name, heading(each.metric), *kind, *_cells(each), _verdict(each, slow, fleet.what)]


def _cells(found: OfMetric) -> list[object]:
    limit = found.limit if tells(found) else None
    return [found.nodes, found.median_s, found.scatter, found.slowest, found.ratio, limit]


def _verdict(found: OfMetric, slow: Sequence[str], what: str) -> VerdictCell:
    if slow:
        return signed("slower", named(slow))
    if tells(found):
        return signed("equivalent", "none stands out")
    return signed("inconclusive", f"too few {what}s for their scatter")


def _by_metric(fleet: Fleet) -> dict[tuple[int, str, str | None], list[str]]:
    """Case, metric and kind -> the nodes that stand out by it among these."""
    found: dict[tuple[int, str, str | None], list[str]] = {}
    for node in fleet.unhealthy:
        for each in node.outlying:
            found.setdefault((each.case, each.metric, each.kind), []).append(node.node)
    return found


def _unmeasured(fleet: Fleet) -> Iterator[str]:
    """A line a reason for which cases have no time on any node."""
    reasons: dict[str, list[OfCase]] = {}
    for case in fleet.cases:
        if case.reason:
            reasons.setdefault(case.reason, []).append(case)
    for reason, cases in reasons.items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"on no {fleet.what}: {name_of(cases[0].case)}{more}: {reason}"


def _of_nodes(fleet: Fleet) -> Iterator[str]:
    if fleet.ends:
        yield f"every link of {named(fleet.ends)} is slow: rather its own adapter, cable or CPUs than what is between"
    for found in fleet.unhealthy[:MOST_NODES]:
        yield from (f"{found.node}: {words}" for words in node_words(fleet, found))
    if len(fleet.unhealthy) > MOST_NODES:
        yield f"and {len(fleet.unhealthy) - MOST_NODES} more {fleet.what}s: --json has all"


def node_words(fleet: Fleet, found: NodeFindings) -> Iterator[str]:
    if found.outlying:
        yield _slower_in(fleet, found)
    for number, deviations in found.deviations.items():
        yield from (deviation_words(fleet.cases[number].case, each, f"this {fleet.what}") for each in deviations)
    if found.damage:
        yield f"its file ends early: {found.damage}"
    for reason, cases in _by_reason(found).items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"{name_of(fleet.cases[cases[0]].case)}{more}: {reason}"
    yield from (f"can cause it: {words}" for words in found.causes[:MOST_WORDS])
    yield from (f"seen: {words}" for words in found.evidence[:MOST_WORDS])
    yield from _unlike(fleet, found)


def _slower_in(fleet: Fleet, found: NodeFindings) -> str:
    worst = max(found.outlying, key=lambda each: each.ratio)
    count = len({each.case for each in found.outlying})
    case = name_of(fleet.cases[worst.case].case)
    return (
        f"slower in {count} of {len(fleet.cases)} cases, up to {shown_ratio(worst.ratio)} times the median in {case}, "
        f"{heading(worst.metric)}"
        + ("" if worst.over_all is None else f"; {shown_ratio(worst.over_all)} times in the median of all cases")
    )


def _by_reason(found: NodeFindings) -> dict[str, list[int]]:
    reasons: dict[str, list[int]] = {}
    for case, reason in found.unmeasured.items():
        reasons.setdefault(reason, []).append(case)
    return reasons


def _unlike(fleet: Fleet, found: NodeFindings) -> Iterator[str]:
    """What no cause tells, and before all else what is known to move results."""
    words = [
        f"{each.field.within} {shown(each.field, each.value, 'none')}, "
        f"{shown(each.field, each.usual, 'none')} on {each.nodes} of {len(fleet.nodes)}"
        for each in sorted(found.unlike, key=lambda each: each.rule is None)
        if each.field not in found.about
    ]
    if words:
        more = f"; and {len(words) - MOST_NAMES} more" if len(words) > MOST_NAMES else ""
        yield f"unlike most nodes: {'; '.join(words[:MOST_NAMES])}{more}"


def _notes(fleet: Fleet) -> Iterator[Note]:
    yield from (Note(f"{file}: {reason}", "marked") for file, reason in fleet.unreadable.items())
    yield from map(Note, (*_kinds(fleet.kinds), *_not_alike(fleet), *fleet.notes, *_how_it_is_told(fleet)))


def _not_alike(fleet: Fleet) -> Iterator[str]:
    for each in fleet.varied:
        others = [f"{shown(each.field, value, 'none')} on {named(nodes)}" for value, nodes in each.others]
        usual = f"{shown(each.field, each.usual, 'none')} on {_most(each, fleet)}"
        yield f"not alike: {each.field} {usual}, {named(others)}"


def _how_it_is_told(fleet: Fleet) -> Iterator[str]:
    if is_told(fleet):
        yield (
            f"a {fleet.what} is slow where it exceeds the case's margin, and what scatter makes of any healthy one, "
            f"in any case or in the median of all, in {format_percent(fleet.false_alarms)} of fleets"
        )


def _most(found: Varied, fleet: Fleet) -> str:
    return "most nodes" if 2 * found.nodes > len(fleet.nodes) else f"{found.nodes} of {len(fleet.nodes)} nodes"


def _kinds(kinds: Sequence[KindOfNode]) -> Iterator[str]:
    """Which there are, and which of them have too few nodes."""
    for each in kinds:
        driver = [f"driver {each.driver}"] if each.driver else []
        models = ", ".join([each.cpu or "an unknown CPU", *each.gpus, *driver])
        among = "judged among themselves" if each.is_enough else f"fewer than {FEWEST}, so beside all nodes"
        beside = "" if each.ratio is None else f"; {shown_ratio(each.ratio)} times as long as kind {kinds[0].name}"
        yield f"kind {each.name}: {models}: {len(each.nodes)} nodes ({named(each.nodes)}), {among}{beside}"


def _checks(fleet: Fleet) -> Iterator[Check]:
    group = f"fleet {fleet.folder}"
    wrong = {each.node: "; ".join(node_words(fleet, each)) for each in fleet.unhealthy}
    yield from (_check(group, name, wrong.get(name, "")) for name in fleet.nodes)
    yield from (_check(group, name, "missing: it left no results file") for name in fleet.missing)
    if fleet.unnamed:
        yield _check(group, f"other {fleet.what}s", f"missing: {fleet.unnamed} that nothing names")
    yield from (_check(group, file, reason) for file, reason in fleet.unreadable.items())
    if fleet.against is not None:
        yield _check(group, f"against {fleet.against.folder}", "; ".join(since(fleet.against)))
    yield from _failed_everywhere(fleet, group)


def _failed_everywhere(fleet: Fleet, group: str) -> Iterator[Check]:
    for case in fleet.cases:
        if case.is_failed:
            yield Check(group, name_of(case.case), "failed", case.reason or "")


def _check(group: str, name: str, wrong: str) -> Check:
    """wrong: why it fails; "" where it passes."""
    return Check(group, name, "failed" if wrong else "passed", wrong)


def _rows(fleet: Fleet) -> Iterator[dict[str, object]]:
    outlying = _by_metric(fleet)
    for number, case in enumerate(fleet.cases):
        for each in case.metrics:
            yield (
                {"primitive": case.case.primitive, "backend": case.case.backend, "device": case.case.device}
                | asdict(each)
                | {"outliers": " ".join(outlying.get((number, each.metric, each.kind), []))}
                | dict(case.case.parameters)
                | {f"label_{name}": value for name, value in case.case.labels.items()}
            )


def changes_table(fleet: Fleet, found: Against) -> Table:
    """Each case by its first metric, and by others in which the fleet or a node became slower."""
    first = {(number, each.metric) for number, case in enumerate(fleet.cases) for each in case.metrics if each.primary}
    shown = [each for each in found.changes if (each.case, each.metric) in first or each.is_slower or each.changed]
    rows = [_change_row(fleet, each, is_first=(each.case, each.metric) in first) for each in shown]
    kind = ["kind"] if fleet.kinds else []
    return Table.of_rows(
        f"{fleet.folder} against {found.folder}",
        ["case", "metric", *kind, "nodes", "before", "now", "ratio", "verdict"],
        rows,
        [*map(Note, _notes_of_changes(found))],
        how="medians of nodes in both; 95 % interval of their mean ratio",
        formats={"before": format_time, "now": format_time},
    )


def _change_row(fleet: Fleet, change: MetricChange, *, is_first: bool) -> list[object]:
    return [
        name_of(fleet.cases[change.case].case) if is_first else "",
        heading(change.metric),
        *([change.kind or ALL] if fleet.kinds else []),
        change.nodes,
        change.before_s,
        change.now_s,
        f"{shown_ratio(change.ratio)} {shown_interval(change.interval)}",
        _verdict_of_change(change),
    ]


def _verdict_of_change(change: MetricChange) -> VerdictCell:
    nodes = [f"{name} {shown_ratio(ratio)}" for name, ratio in change.changed.items()]
    slower = ["all are slower"] if change.is_slower else []
    words = "; ".join([*slower, *([named(nodes)] if nodes else [])])
    if words:
        return signed("slower", words)
    if change.interval is None:
        return signed("inconclusive", "too few nodes")
    is_alike = change.interval[1] <= 1 + change.margin
    return signed("equivalent", "not slower") if is_alike else signed("inconclusive", "undecided")


def _notes_of_changes(found: Against) -> Iterator[str]:
    if found.come:
        yield f"not in {found.folder}: {', '.join(found.come)}"
    if found.gone:
        yield f"in {found.folder} alone: {', '.join(found.gone)}"
    for each in found.altered[:MOST_ALTERED]:
        before, now = (shown(each.field, value, "none") for value in (each.before, each.now))
        yield f"since then: {each.field} {before}, now {now}, on {named(each.nodes)}"
    if len(found.altered) > MOST_ALTERED:
        yield f"since then: {len(found.altered) - MOST_ALTERED} more, which --json has"
    if found.methods:
        yield f"cases that were measured otherwise in {found.folder} are not compared: {'; '.join(found.methods)}"
    if not found.changes:
        yield f"nothing to compare: {found.folder} has no node and case in common with this fleet"
