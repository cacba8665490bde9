"""A fleet beside itself at an earlier time, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.shown import shown_interval, shown_ratio
from primbench.report.document import Note, Table
from primbench.report.environment import shown
from primbench.report.plain import named
from primbench.report.verdicts import heading, signed
from primbench.spec.naming import name_of
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.fleet.findings import Against, Fleet, MetricChange
    from primbench.report.document import VerdictCell

MOST_ALTERED = 8


def changes_table(fleet: Fleet, found: Against) -> Table:
    """Each case by its first metric, and by others in which the fleet or a node became slower."""
    first = {(number, each.metric) for number, case in enumerate(fleet.cases) for each in case.metrics if each.primary}
    shown = [each for each in found.changes if (each.case, each.metric) in first or each.is_slower or each.changed]
    rows = [_row(fleet, each, is_first=(each.case, each.metric) in first) for each in shown]
    return Table.of_rows(
        f"{fleet.folder} against {found.folder}",
        ["case", "metric", "nodes", "before", "now", "ratio", "verdict"],
        rows,
        [*map(Note, _notes(found))],
        how="medians of nodes in both; 95 % interval of their mean ratio",
        formats={"before": format_time, "now": format_time},
    )


def _row(fleet: Fleet, change: MetricChange, *, is_first: bool) -> list[object]:
    return [
        name_of(fleet.cases[change.case].case) if is_first else "",
        heading(change.metric),
        change.nodes,
        change.before_s,
        change.now_s,
        f"{shown_ratio(change.ratio)} {shown_interval(change.interval)}",
        _verdict(change),
    ]


def _verdict(change: MetricChange) -> VerdictCell:
    nodes = [f"{name} {shown_ratio(ratio)}" for name, ratio in change.changed.items()]
    slower = ["all are slower"] if change.is_slower else []
    words = "; ".join([*slower, *([named(nodes)] if nodes else [])])
    if words:
        return signed("slower", words)
    if change.interval is None:
        return signed("inconclusive", "too few nodes")
    is_alike = change.interval[1] <= 1 + change.margin
    return signed("equivalent", "not slower") if is_alike else signed("inconclusive", "undecided")


def _notes(found: Against) -> Iterator[str]:
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
