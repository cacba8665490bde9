"""What numbers a results file may have: arithmetic on these stays within the range of a float.

Counters of a kernel or a driver may be set back while they are looked at, so that a difference may be below 0.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Counted = Annotated[int, Meta(ge=1, le=2**63 - 1)]
"""Of which there is at least one."""
Seconds = Annotated[float, Meta(ge=-1e9, le=1e9)]
Time = Annotated[float, Meta(ge=0, le=1e9)]
"""Seconds that a clock which never goes back has counted."""
Lasting = Annotated[float, Meta(gt=0, le=1e9)]
"""Seconds that something took, by which others are divided."""
Amount = Annotated[float, Meta(ge=-1e30, le=1e30)]
"""Of any other unit."""
