"""What `doctor` finds wrong in one of two places alone, as causes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from primbench.compare.cause import SYMPTOM, Cause
from primbench.doctor.against import by_rule, short
from primbench.doctor.checks import examine
from primbench.doctor.place import Place
from primbench.doctor.rules import RULES
from primbench.environment.comparable import meaning_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.ruled import Moved
    from primbench.compare.sides import Side
    from primbench.doctor.finding import Activity, Finding
    from primbench.doctor.rules import Rule
    from primbench.environment.difference import Change, Difference
    from primbench.results.record import Worker

_OF_CHECK = {check: rule for rule in RULES for check in (*rule.told_by, *rule.checks)}
_UPSTREAM = 12  # of other checks: before what may be of no matter, such as another library
ALIKE = 1.5  # two readings of one quantity within this factor are taken to be the same
_NUMBER = re.compile(r"(?<![:\w.])[0-9][0-9.]*( [nmu]?s\b)?")


def found_in_one_alone(moved: Moved, differing: Difference | None, baseline: Side, side: Side) -> list[Cause]:
    """What `doctor` finds in one of the places and not in the other, where what it can move is what moved."""
    case, parts = moved.case, moved.parts
    rules = [rule for rule, _ in by_rule(differing)] if differing else []
    one, other = (_findings(place, moved, differing, rules) for place in (baseline, side))
    here = [
        _alone(side.name, alike, rules, moved) for alike in _only_here(parts, other, one) if _lasts(alike, side, case)
    ]
    there = [
        _alone(baseline.name, alike, rules, moved).of_baseline()
        for alike in _only_here(parts, one, other)
        if _lasts(alike, baseline, case)
    ]
    return [*here, *there]


def _only_here(parts: Sequence[Activity], here: Sequence[Finding], there: Sequence[Finding]) -> list[list[Finding]]:
    """The findings of one place that the other has not and that can move the parts, one list for each check."""
    of_check: dict[str, list[Finding]] = {}
    for finding in here:
        if set(finding.distorts) & set(parts) and not any(_is_same(finding, each) for each in there):
            of_check.setdefault(finding.check, []).append(finding)
    return list(of_check.values())


def _alone(name: str, alike: Sequence[Finding], rules: Collection[Rule], moved: Moved) -> Cause:
    """The cause that is made of what one check finds in the place of that name alone.

    rules: which the places differ in: where they do not, a reading is as slow as it is for some other cause.
    """
    first, *others = alike
    rule = _OF_CHECK.get(first.check)
    is_symptom = first.reading is not None and rule not in rules
    more = f", and {len(others)} more like it" if others else ""
    return Cause(
        f"in {name} alone: {first.summary}{more} ({first.check})",
        at_least=min(each.at_least for each in alike),
        at_most=_most(alike, rule, moved),
        title=f"{first.summary}, in {name} alone",
        upstream=SYMPTOM if is_symptom else rule.upstream if rule else _UPSTREAM,
        stops=rule is not None and rule.stops,
        check=first.check,
    )


def _most(alike: Sequence[Finding], rule: Rule | None, moved: Moved) -> float:
    """How many times as long what was found can make it: by the check, and by what it has read."""
    reading = alike[0].reading
    by_reading = math.inf if rule is None or reading is None else moved.most(rule, reading)
    return min(by_reading, max(math.inf if each.at_most is None else each.at_most for each in alike))


def _findings(side: Side, moved: Moved, differing: Difference | None, rules: Sequence[Rule]) -> list[Finding]:
    """What `doctor` finds wrong in the place of the worker that ran the case; without unknowns and told differences."""
    worker = side.worker_of(moved.case.case.backend, moved.case.case.device)
    found = _wrong_with(worker) if worker else []
    unused = () if moved.makes("io_uring_enter") else ("io-uring",)
    checks = {*unused, *(check for rule in rules for check in rule.tells)}
    told = _told(differing) if differing else ()
    return [each for each in found if each.check not in checks and each.summary.partition(":")[0] not in told]


def _told(differing: Difference) -> set[str]:
    changes = (*differing.stack.changes, *differing.limits.changes)
    return {f"{short(each.field)} is set" for each in changes if each.kind == "differs" or _is_unread(each)}


def _is_unread(change: Change) -> bool:
    """Whether it is of a variable that no library of the two places reads."""
    return change.kind == "varies" and not meaning_of(change.field).varies


def _wrong_with(worker: Worker) -> list[Finding]:
    found = examine(Place(environment=worker.environment))
    return [each for each in found if each.severity not in ("ok", "unknown")]


def _lasts(alike: Sequence[Finding], side: Side, case: CaseComparison) -> bool:
    """Whether what was read is so in all processes of a place: one that began beside others read slower clocks."""
    if alike[0].reading is None:
        return True
    workers = [worker for _, worker in side.workers_of(case.case.backend, case.case.device)]
    return all(any(each.check == alike[0].check for each in _wrong_with(worker)) for worker in workers)


def _is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings say the same; readings of what changes by itself may differ up to the factor ALIKE."""
    if (one.check, one.severity) != (other.check, other.severity) or one.reading is None or other.reading is None:
        return (one.check, one.summary) == (other.check, other.summary)
    less, more = sorted((one.reading, other.reading))
    return _NUMBER.sub("#", one.summary) == _NUMBER.sub("#", other.summary) and more <= ALIKE * less
