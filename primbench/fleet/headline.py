"""A fleet in a sentence: which nodes are wrong, else that none is, or that there are too few to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.shown import shown_ratio
from primbench.report.plain import named
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.fleet.findings import Against, Fleet, NodeFindings, OfMetric

TELLING = 10.0  # a node has to be so many times as slow to stand out: too few nodes for their scatter


def headline(fleet: Fleet) -> str:
    """Which nodes are wrong, in a sentence, else that none is; then the same of links, where these were measured."""
    return " ".join(map(_headline, with_links(fleet)))


def with_links(fleet: Fleet) -> list[Fleet]:
    """A fleet, and its links where these were measured."""
    return [each for each in (fleet, fleet.links) if each is not None]


def _headline(fleet: Fleet) -> str:
    count = f"{len(fleet.nodes)} {fleet.what}{'s' * (len(fleet.nodes) != 1)}"
    clauses = [*_wrong(fleet), *_absent(fleet), *_failing(fleet), *since(fleet.against)]
    if clauses:
        return f"{count}: {'; '.join(clauses)}."
    if not is_told(fleet):
        return f"{count}: too few, or too unlike, to tell a slow one."
    kinds = f" of {len(fleet.kinds)} kinds" if fleet.kinds else ""
    return f"{'; '.join([f'Nothing stands out among {count}{kinds}', *_untold(fleet)])}."


def _untold(fleet: Fleet) -> Iterator[str]:
    """Of how many cases it is not known whether a node stands out."""
    measured = [case for case in fleet.cases if case.metrics]
    count = sum(not any(map(tells, case.metrics)) for case in measured)
    if count:
        yield f"too few for the scatter of {count} of {len(measured)} cases"


def is_told(fleet: Fleet) -> bool:
    """Whether there are nodes enough for any case."""
    return any(tells(each) for case in fleet.cases for each in case.metrics)


def tells(found: OfMetric) -> bool:
    """Whether there are nodes enough for the scatter of a metric."""
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


def since(against: Against | None) -> Iterator[str]:
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
