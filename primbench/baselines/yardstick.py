"""What measured times may be set beside: the roof of the device, an earlier run, somebody's published times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from primbench.results.record import Record


class Yardstick(Protocol):
    """Adds columns to the tables and the CSV, and says below a table what they are."""

    def figures(self, record: Record) -> dict[str, float | None]:
        """The added columns by name, unit at the end as in Problem.figures, ``ratio`` beside those.

        The same names for every record; None where there is nothing to compare with.
        """
        ...

    def notes(self, records: Sequence[Record]) -> list[str]:
        """Lines for below the table of these records."""
        ...
