"""Why a case fails in one place: what it says was refused, and a difference between the places that refuses such."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.compare.cause import Cause
from primbench.compare.differing import of_setting, settings
from primbench.compare.ruled import can_refuse
from primbench.doctor.against import by_rule, in_words, short
from primbench.spec.arm import RULE_OF_SETTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.comparison import CaseComparison
    from primbench.compare.sides import Side
    from primbench.environment.difference import Difference

# By the rule of what refuses it: the C library's words for errno (EAGAIN, ENOMEM, ...), Python's and those of signals.
# What is named comes before what any of several may mean: torch says of a full /dev/shm that memory ran out.
_NO_MEMORY = r"Cannot allocate memory|MemoryError|[Oo]ut of memory"
_SAID = {
    "processes": r"Resource temporarily unavailable|can't start new thread",
    "open-files": r"Too many open files",
    "shared-memory": r"No space left on device|/dev/shm|SIGBUS",
    "file-size": r"File too large|SIGXFSZ",
    "address-space": rf"{_NO_MEMORY}|failed to map segment|can't start new thread",
    "cpu-time": r"SIGXCPU|SIGKILL",
    "memory": rf"{_NO_MEMORY}|SIGKILL",
    "files": r"Read-only file system|No space left on device|Input/output error|Stale file handle|io_uring",
    "filters": r"Operation not permitted|Function not implemented|Permission denied",
}


def refusals(case: CaseComparison, differing: Difference | None, baseline: Side, side: Side) -> Iterator[Cause]:
    """What differs between the places and refuses what the case says was refused to it."""
    reason = case.reason or ""
    found = _different(case, differing, baseline, side)
    for refusing in (name for name, said in _SAID.items() if re.search(said, reason)):
        yield from (cause for name, cause in found if name == refusing)


def _different(
    case: CaseComparison, differing: Difference | None, baseline: Side, side: Side
) -> list[tuple[str | None, Cause]]:
    """Names of rules, each with a difference that comes under it; what the reason names itself comes first.

    None of a limit that leaves more where the case fails.
    """
    changes = [
        (rule.name, each)
        for rule, of_rule in (by_rule(differing) if differing else [])
        for each in of_rule
        if case.fails_more is None or can_refuse(each, in_arm=case.fails_more == side.name)
    ]
    changes.sort(key=lambda each: short(each[1].field) not in (case.reason or ""))
    asked = settings(baseline, side, [change for _, change in changes])
    return [
        *(
            (name, Cause(in_words(change, f"in {baseline.name}", f"in {side.name}"), about=(change.field,)))
            for name, change in changes
        ),
        *((RULE_OF_SETTING[field], Cause(words, about=(of_setting(field),))) for field, words in asked),
    ]
