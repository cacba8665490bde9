"""A fleet for people and for other programs: a table of cases over nodes, then each node with something wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.shown import shown_ratio
from primbench.fleet.outliers import FEWEST
from primbench.report.cautions import deviation_words
from primbench.report.document import Check, Document, Note, Section, Table
from primbench.report.environment import shown
from primbench.report.fleet_changes import MOST_NAMES, changes_table, named
from primbench.report.verdicts import heading, signed
from primbench.spec.naming import name_of
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.fleet.findings import Against, Fleet, KindOfNode, NodeFindings, OfCase, OfMetric, Varied
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
TELLING = 10.0  # a node has to be so many times as slow to stand out: too few nodes for their scatter


def document(fleet: Fleet) -> Document:
    """A row a case and metric: times in seconds, ratios of times. A check a node, missing ones included."""
    return Document(
        title="primbench",
        answer=Note(headline(fleet)),
        sections=lambda: [part for each in _with_links(fleet) for part in _sections(each)],
        rows=lambda: [row for each in _with_links(fleet) for row in _rows(each)],
        checks=lambda: [check for each in _with_links(fleet) for check in _checks(each)],
        value={"headline": headline(fleet)} | asdict(fleet),
    )


def headline(fleet: Fleet) -> str:
    """Which nodes are wrong, in a sentence, else that none is; then the same of links, where these were measured."""
    return " ".join(map(_headline, _with_links(fleet)))


def _with_links(fleet: Fleet) -> list[Fleet]:
    return [each for each in (fleet, fleet.links) if each is not None]


def _headline(fleet: Fleet) -> str:
    count = f"{len(fleet.nodes)} {fleet.what}{'s' * (len(fleet.nodes) != 1)}"
    clauses = [*_wrong(fleet), *_absent(fleet), *_failing(fleet), *_since(fleet.against)]
    if clauses:
        return f"{count}: {'; '.join(clauses)}."
    if not _is_told(fleet):
        return f"{count}: too few, or too unlike, to tell a slow one."
    kinds = f" of {len(fleet.kinds)} kinds" if fleet.kinds else ""
    return f"{'; '.join([f'Nothing stands out among {count}{kinds}', *_untold(fleet)])}."


def _untold(fleet: Fleet) -> Iterator[str]:
    """Of how many cases it is not known whether a node stands out."""
    measured = [case for case in fleet.cases if case.metrics]
    count = sum(not any(map(_tells, case.metrics)) for case in measured)
    if count:
        yield f"too few for the scatter of {count} of {len(measured)} cases"


def _is_told(fleet: Fleet) -> bool:
    """Whether there are nodes enough for any case."""
    return any(_tells(each) for case in fleet.cases for each in case.metrics)


def _tells(found: OfMetric) -> bool:
    return found.limit is not None and found.limit <= TELLING


def _wrong(fleet: Fleet) -> Iterator[str]:
    slow = [each for each in fleet.unhealthy if each.outlying]
    if slow:
        yield _slowest(fleet, slow)
    yield from _naming("wrong in a few bits:", [each.node for each in fleet.unhealthy if each.deviations])
    lacking = [each.node for each in fleet.unhealthy if each.unmeasured or each.damage]
    yield from _naming("not all was measured on", lacking)


def _naming(what: str, nodes: Sequence[str]) -> Iterator[str]:
    if nodes:
        yield f"{what} {named(nodes)}"


def _absent(fleet: Fleet) -> Iterator[str]:
    names = [*fleet.missing, *([f"{fleet.unnamed} that nothing names"] if fleet.unnamed else [])]
    if names:
        yield f"missing: {named(names)}"
    if fleet.unreadable:
        yield f"not to be read: {named(list(fleet.unreadable))}"


def _failing(fleet: Fleet) -> Iterator[str]:
    failing = sum(case.is_failed for case in fleet.cases)
    if failing:
        yield f"{failing} of {len(fleet.cases)} cases failed on all {fleet.what}s"


def _since(against: Against | None) -> Iterator[str]:
    """What makes a fleet fail beside an earlier one."""
    if against is None:
        return
    nodes = list(dict.fromkeys(name for each in against.changes for name in each.changed))
    if against.is_slower:
        who = [*(["all"] if any(each.is_slower for each in against.changes) else []), *nodes]
        yield f"slower than in {against.folder}: {named(who)}"
    elif not against.changes:
        yield f"nothing in common with {against.folder}"


def _slowest(fleet: Fleet, slow: Sequence[NodeFindings]) -> str:
    first = slow[0]
    worst = max(first.outlying, key=lambda each: each.ratio)
    likely = f", likely {first.likely}" if first.likely else ""
    case = name_of(fleet.cases[worst.case].case, with_place=False)
    who = f"{named([each.node for each in slow])}: {first.node}" if len(slow) > 1 else f"{first.node},"
    whose = f" as kind {worst.kind}" if worst.kind else ""
    return f"slower: {who} {shown_ratio(worst.ratio)} times as long{whose} in {case}{likely}"


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
    limit = found.limit if _tells(found) else None
    return [found.nodes, found.median_s, found.scatter, found.slowest, found.ratio, limit]


def _verdict(found: OfMetric, slow: Sequence[str], what: str) -> VerdictCell:
    if slow:
        return signed("slower", named(slow))
    if _tells(found):
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
        yield from (f"{found.node}: {words}" for words in _of_node(fleet, found))
    if len(fleet.unhealthy) > MOST_NODES:
        yield f"and {len(fleet.unhealthy) - MOST_NODES} more {fleet.what}s: --json has all"


def _of_node(fleet: Fleet, found: NodeFindings) -> Iterator[str]:
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
    if _is_told(fleet):
        yield (
            f"a {fleet.what} is too slow where it exceeds what lognormal scatter of healthy ones makes of any of them, "
            f"in any case, in {format_percent(fleet.false_alarms)} of fleets, and the case's margin"
        )


def _most(found: Varied, fleet: Fleet) -> str:
    return "most nodes" if 2 * found.nodes > len(fleet.nodes) else f"{found.nodes} of {len(fleet.nodes)} nodes"


def _kinds(kinds: Sequence[KindOfNode]) -> Iterator[str]:
    """Which there are, and which of them have too few nodes."""
    for each in kinds:
        models = ", ".join([each.cpu or "an unknown CPU", *each.gpus])
        among = "judged among themselves" if each.is_enough else f"fewer than {FEWEST}, so beside all nodes"
        yield f"kind {each.name}: {models}: {len(each.nodes)} nodes ({named(each.nodes)}), {among}"


def _checks(fleet: Fleet) -> Iterator[Check]:
    group = f"fleet {fleet.folder}"
    wrong = {each.node: "; ".join(_of_node(fleet, each)) for each in fleet.unhealthy}
    yield from (_check(group, name, wrong.get(name, "")) for name in fleet.nodes)
    yield from (_check(group, name, "missing: it left no results file") for name in fleet.missing)
    if fleet.unnamed:
        yield _check(group, f"other {fleet.what}s", f"missing: {fleet.unnamed} that nothing names")
    yield from (_check(group, file, reason) for file, reason in fleet.unreadable.items())
    if fleet.against is not None:
        yield _check(group, f"against {fleet.against.folder}", "; ".join(_since(fleet.against)))
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
