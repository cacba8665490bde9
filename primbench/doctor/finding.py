"""What a check says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Severity = Literal["ok", "note", "warning", "problem", "unknown"]


Activity = Literal["launch", "copy", "kernel", "collective", "start-up", "data loading", "everything on the CPU"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    check: its short name, such as "cpu-quota". severity: "problem" makes results wrong or far slower, "warning" can
    move them, "note" is worth knowing, "unknown" could not be seen and the evidence says why. distorts: what it would
    change. at_least, at_most: how many times as long that would take; at_least below 1 is what can make it faster, None
    has no bound. reading: the number in the summary that is another one at each look, in SI units; None where there is
    none. evidence: what was read, and where. advice: what to do, in words; fix: commands that do it, never run here.
    """

    check: str
    severity: Severity
    summary: str
    reading: float | None = None
    evidence: list[str] = []
    distorts: list[Activity] = []
    at_least: float = 1.0
    at_most: float | None = None
    advice: str | None = None
    fix: list[str] = []


class Reasoned(Protocol):
    """A struct of which a field that is None may have its reason in ``missing``."""

    @property
    def missing(self) -> dict[str, str]: ...


def unseen(check: str, part: Reasoned, *fields: str) -> Iterator[Finding]:
    """An "unknown" for those of the fields that could not be read; nothing where all could."""
    reasons = [f"{field}: {part.missing[field]}" for field in fields if field in part.missing]
    if reasons:
        yield Finding(check=check, severity="unknown", summary="could not be seen", evidence=reasons)


def listed(names: Sequence[object]) -> str:
    """``[1, 2, 3]`` as "1, 2 and 3"."""
    words = [str(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
