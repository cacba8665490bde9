"""What a suite says of the step that it was made of."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec


class Captured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """step: whose it is, and where it begins and ends. calls: of operators, views included. torch: its version.

    threads: of torch's pool, by which an operator on the CPU computes; None is not known. times_s: of steps like it
    that were not captured, in seconds; [] where there were none.
    """

    step: str
    calls: int = 0
    torch: str = ""
    threads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    times_s: list[float] = []

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a suite that is not so be refused."""
        if not all(each > 0 and math.isfinite(each) for each in self.times_s):
            raise ValueError("times_s: finite numbers above 0")
