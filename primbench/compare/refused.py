"""Why a case fails in one place: what it says was refused, and a difference between the places that refuses such."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.compare.by_facts import can_refuse
from primbench.compare.differing import of_setting, settings
from primbench.doctor.against import by_cause, in_words
from primbench.doctor.cause import Suspect
from primbench.doctor.table import causes
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.environment.difference import Change, Difference


def refusals(case: CaseComparison, differing: Difference | None, baseline: Side, side: Side) -> Iterator[Suspect]:
    """What differs between the places and refuses what the case says was refused to it.

    What is named comes before what any of several may mean: torch says of a full /dev/shm that memory ran out.
    """
    reason = case.reason or ""
    found = _different(case, differing, baseline, side)
    for refusing in (each.id for each in causes().values() if each.refuses and re.search(each.refuses, reason)):
        yield from (each for each in found if each.cause == refusing)


def _different(case: CaseComparison, differing: Difference | None, baseline: Side, side: Side) -> list[Suspect]:
    """What differs, each with its cause.

    None of a limit that leaves more where the case fails.
    """
    found = list(_changes(case, differing, side))
    asked = settings(baseline, side, [change for _, change in found])
    one, other = f"in {baseline.name}", f"in {side.name}"
    return [
        *(Suspect(in_words(each, one, other), cause=cause, about=(each.field,)) for cause, each in found),
        *(Suspect(words, cause=SETTINGS[field].rule or "", about=(of_setting(field),)) for field, words in asked),
    ]


def _changes(case: CaseComparison, differing: Difference | None, side: Side) -> Iterator[tuple[str, Change]]:
    """Each with the id of its cause."""
    for cause, changes in by_cause(differing) if differing else ():
        for change in changes:
            if case.fails_more is None or can_refuse(change, in_arm=case.fails_more == side.name):
                yield cause.id, change
