"""What in this place can slow a GPU down: each known cause as a check with its evidence and its cure."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["ok", "note", "warning", "problem", "unknown"]
Part = Literal["launch", "copy", "kernel", "collective", "start-up", "everything on the CPU"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    check: its short name, such as "cpu-quota". severity: "problem" makes results wrong or far slower, "warning" can
    move them, "note" is worth knowing, "unknown" could not be seen and the evidence says why. distorts: what it would
    change. evidence: what was read, and where. advice: what to do, in words; fix: commands that do it, never run here.
    """

    check: str
    severity: Severity
    summary: str
    evidence: list[str] = []
    distorts: list[Part] = []
    advice: str | None = None
    fix: list[str] = []
