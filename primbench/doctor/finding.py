"""What is found in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from primbench.spec.setting import Activity
from primbench.system.meaning import FactId

Severity = Literal["ok", "note", "warning", "problem", "unknown"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause shows in one place.

    Two findings are the same by their cause, severity, facts, values and reading, and never by their words.
    """

    cause: str = msgspec.field(name="check", default="")
    """The id of its cause, which who walks the table fills in."""
    severity: Severity = "warning"
    """"problem" makes results wrong or far slower, "warning" can move them, "note" is worth knowing, "unknown" could
    not be seen, and the evidence says why.
    """
    summary: str
    about: list[FactId] = []
    """The facts that show it; as its cause's row has them where a function leaves them out."""
    values: Sequence[str | float] = ()
    """What the summary says beside constant words, by which it is the same as another one's or is not."""
    reading: float | None = None
    """The number in the summary that is another one at each look, in SI units; None where there is none."""
    evidence: list[str] = []
    """What was read, and where."""
    distorts: list[Activity] | None = None
    """What it would change; None, until the table is walked, is what its cause's row says."""
    at_least: float = 1.0
    """How many times as long that would take at least; below 1 is what can make it faster."""
    at_most: float | None = None
    """How many times as long at most; None has no bound."""
    advice: str | None = None
    """What to do, in words."""
    fix: list[str] = []
    """Commands that do it, never run here."""


def listed(names: Sequence[object]) -> str:
    """``[1, 2, 3]`` as "1, 2 and 3"."""
    words = [str(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
