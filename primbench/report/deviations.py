"""Outputs that are not what they should be, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.table import causes
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from primbench.compare.outputs import Deviation
    from primbench.spec.case import Case


def in_words(case: Case, found: Deviation, place: str) -> str:
    """place: what stands for that of the deviation, such as "host"."""
    who = f"each process of {place}" if found.process is None else f"process {found.process} of {place}"
    count = f"{found.calls} of {found.of_calls}" if found.calls < found.of_calls else f"all {found.calls}"
    others = f"{found.others} other process{'es' * (found.others != 1)}"
    return (
        f"{name_of(case)}: {who} gave, in {count} calls that were looked at, an output of which {found.parts} of "
        f"{found.of_parts} parts {'is' if found.parts == 1 else 'are'} not to the last bit what {others} gave, with "
        f"the same libraries on the same model of processor: {causes()[found.cause].effect}"
    )
