"""Annotations, as GitHub shows them beside a run when they stand in the log of one of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.plain import printable

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 50
WRITES = "GitHub annotations, an error a failed case"
IS_RARE = True

LEVELS = {"failed": "error", "open": "warning"}  # in this order: GitHub shows ten of a step


def write(document: Document) -> str:
    """A line for each check that does not pass."""
    checks = document.checks()
    return "".join(
        f"::{level} title={_property(f'{check.group}: {check.name}')}::{_text(check.words)}\n"
        for state, level in LEVELS.items()
        for check in checks
        if check.state == state
    )


def _text(words: str) -> str:
    """On one line, a percent sign escaped."""
    return printable(words).replace("%", "%25")


def _property(words: str) -> str:
    return _text(words).replace(":", "%3A").replace(",", "%2C")
