"""What doctor finds wrong in one of two places alone, as causes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.doctor.cause import SYMPTOM, Suspect
from primbench.doctor.place import Place
from primbench.doctor.table import causes, examine, leading
from primbench.environment.comparable import meaning_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.doctor.cause import Finding
    from primbench.environment.difference import Change, Difference
    from primbench.results.record import Worker
    from primbench.spec.setting import Activity
    from primbench.system.meaning import FactId

ALIKE = 1.5  # two readings of one quantity within this factor are taken to be the same


def found_in_one_alone(beside: Beside, untold: Collection[str]) -> list[Suspect]:
    """What doctor finds in one of the places and not in the other, where what it can move is what moved.

    untold: causes that something tells better.
    """
    told = _told(beside.differing) if beside.differing else set()
    differing = {cause.id for cause, _ in beside.by_cause}
    one, other = (_findings(place, beside, untold, told) for place in (beside.baseline, beside.side))
    here = [_alone(beside.side.name, alike, differing, beside) for alike in _only_here(beside, other, one, beside.side)]
    there = [
        _alone(beside.baseline.name, alike, differing, beside).of_baseline()
        for alike in _only_here(beside, one, other, beside.baseline)
    ]
    return [*here, *there]


def _only_here(beside: Beside, here: Sequence[Finding], there: Sequence[Finding], side: Side) -> list[list[Finding]]:
    """The findings of one place that the other has not and that can move the parts, one list for each cause."""
    by_cause: dict[str, list[Finding]] = {}
    for finding in here:
        if _can_move(finding, beside.parts) and not any(_is_same(finding, each) for each in there):
            by_cause.setdefault(finding.cause, []).append(finding)
    return [alike for alike in by_cause.values() if _lasts(alike, side, beside)]


def _can_move(finding: Finding, parts: Sequence[Activity]) -> bool:
    return not set(finding.distorts or ()).isdisjoint(parts)


def _alone(name: str, alike: Sequence[Finding], differing: Collection[str], beside: Beside) -> Suspect:
    """What one cause shows in the place of that name alone.

    differing: causes by which the places differ: where they do not, a reading is as slow as it is for some other one.
    """
    first, *others = alike
    lead = leading(causes()[first.cause])
    is_symptom = first.reading is not None and lead.id not in differing
    more = f", and {len(others)} more like it" if others else ""
    by_reading = math.inf if first.reading is None else beside.most(lead, first.reading)
    return Suspect(
        f"in {name} alone: {first.summary}{more} ({first.cause})",
        at_least=min(each.at_least for each in alike),
        at_most=min(by_reading, max(math.inf if each.at_most is None else each.at_most for each in alike)),
        title=f"{first.summary}, in {name} alone",
        upstream=SYMPTOM if is_symptom else lead.upstream,
        stops=lead.stops,
        cause=first.cause,
    )


def _findings(side: Side, beside: Beside, untold: Collection[str], told: Collection[FactId]) -> list[Finding]:
    """What doctor finds wrong in the place of the worker that ran the case; without unknowns and told differences."""
    worker = beside.worker(side)
    return [
        each
        for each in (_wrong_with(worker) if worker else [])
        if each.cause not in untold
        and beside.makes_calls_of(causes()[each.cause])
        and not (causes()[each.cause].is_by_fact and set(each.about) <= {*told})
    ]


def _told(differing: Difference) -> set[FactId]:
    """The facts that differ, and that the comparison tells of as such."""
    changes = (*differing.stack.changes, *differing.limits.changes)
    return {each.field for each in changes if each.kind == "differs" or _is_unread(each)}


def _is_unread(change: Change) -> bool:
    """Whether it is of a variable that no library of the two places reads."""
    return change.kind == "varies" and not meaning_of(change.field).varies


def _wrong_with(worker: Worker) -> list[Finding]:
    found = examine(Place(environment=worker.environment))
    return [each for each in found if each.severity not in ("ok", "unknown")]


def _lasts(alike: Sequence[Finding], side: Side, beside: Beside) -> bool:
    """Whether what was read is so in all processes of a place: one that began beside others read slower clocks."""
    if alike[0].reading is None:
        return True
    wrong = map(_wrong_with, beside.workers(side))
    return all(any(each.cause == alike[0].cause for each in found) for found in wrong)


def _is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings are of the same; readings of what changes by itself may differ up to the factor ALIKE."""
    if _identity(one) != _identity(other) or (one.reading is None) != (other.reading is None):
        return False
    less, more = sorted((one.reading or 0.0, other.reading or 0.0))
    return more <= ALIKE * less or less == more


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.cause, finding.severity, finding.about, finding.values
