"""What a study that was published says of cases, to stand beside what the same cases show here."""

from __future__ import annotations

import math

import msgspec


class ClaimedValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was published of one place: times in seconds, None where they are not told."""

    place: str
    mean: float
    """Of the runs."""
    runs: int
    """How many there were."""
    std: float | None = None
    """Standard deviation of the runs."""
    min: float | None = None
    """The least of the runs."""
    max: float | None = None
    """The most of the runs."""

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite or a file that is not so be refused."""
        if not (self.mean > 0 and math.isfinite(self.mean)):
            raise ValueError(f"mean = {self.mean}: a finite number of seconds above 0")
        if self.runs < 1:
            raise ValueError(f"runs = {self.runs}: 1 or more")
        if self.std is not None and not (self.std >= 0 and math.isfinite(self.std)):
            raise ValueError(f"std = {self.std}: a finite number of seconds, at least 0")


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it says of one workload in two places."""

    id: str | None = None
    """The label of the cases here that are of that workload; None where none can show it."""
    says: str
    """The workload in words."""
    first: ClaimedValue | None = None
    """What was published of the first place."""
    second: ClaimedValue | None = None
    """What was published of the second place."""
    ratio: float | None = None
    """How many times as long the second place takes as the first, where that alone was published."""
    slower: bool = False
    """Whether it was published that the second place takes longer, and not by how much."""
    caution: str | None = None
    """Why it may not be what it seems."""

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite or a file that is not so be refused."""
        if self.ratio is not None and not (self.ratio > 0 and math.isfinite(self.ratio)):
            raise ValueError(f"ratio = {self.ratio}: a finite number above 0")
        if (self.first is None) != (self.second is None):
            raise ValueError("first and second: both of them or neither")
        if sum((self.first is not None, self.ratio is not None, self.slower)) > 1:
            raise ValueError("first and second, ratio, slower: one of them, since each is the claim")


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times that were published of two places."""

    source: str
    """Who published it, and where."""
    claims: list[Claim]
    """Claims that times of cases can show; [] where there is none."""
