"""What a study that was published says of cases, to stand beside what the same cases show here."""

from __future__ import annotations

import math

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it says of one workload in two places.

    id: the label of the cases here that are of that workload; None where none can show it. says: its numbers, in words.
    ratio: how many times as long the second place takes as the first; None where it says nothing of times. caution: why
    it may not be what it seems.
    """

    id: str | None = None
    says: str
    ratio: float | None = None
    caution: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite or a file that is not so be refused."""
        if self.ratio is not None and not (self.ratio > 0 and math.isfinite(self.ratio)):
            raise ValueError(f"ratio = {self.ratio}: a finite number above 0")


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """source: who published it, and where."""

    source: str
    claims: list[Claim]
