"""What a study that was published says of cases, to stand beside what the same cases show here."""

from __future__ import annotations

import math

import msgspec


class ClaimedValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was published of one place: ``mean`` of so many ``runs``, in seconds, as are the others where they are told.

    std: of the runs. min, max: the least and the most of them.
    """

    place: str
    mean: float
    runs: int
    std: float | None = None
    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite or a file that is not so be refused."""
        if not (self.mean > 0 and math.isfinite(self.mean)):
            raise ValueError(f"mean = {self.mean}: a finite number of seconds above 0")
        if self.runs < 1:
            raise ValueError(f"runs = {self.runs}: 1 or more")
        if self.std is not None and not (self.std >= 0 and math.isfinite(self.std)):
            raise ValueError(f"std = {self.std}: a finite number of seconds, at least 0")


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it says of one workload in two places.

    id: the label of the cases here that are of that workload; None where none can show it. says: which workload, in
    words. first, second: what was published of the two places, whose times the ratio is of. ratio: how many times as
    long the second place takes as the first, where that alone was published. slower: that the second place takes longer
    was, and not by how much. caution: why it may not be what it seems.
    """

    id: str | None = None
    says: str
    first: ClaimedValue | None = None
    second: ClaimedValue | None = None
    ratio: float | None = None
    slower: bool = False
    caution: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite or a file that is not so be refused."""
        if self.ratio is not None and not (self.ratio > 0 and math.isfinite(self.ratio)):
            raise ValueError(f"ratio = {self.ratio}: a finite number above 0")
        if (self.first is None) != (self.second is None):
            raise ValueError("first and second: both of them or neither")
        if sum((self.first is not None, self.ratio is not None, self.slower)) > 1:
            raise ValueError("first and second, ratio, slower: one of them, since each is the claim")


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """source: who published it, and where. claims: those that times of cases can show; [] where there is none."""

    source: str
    claims: list[Claim]
