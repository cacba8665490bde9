"""A script's step as a whole: others like it, timed as they ran when it was captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from primbench import stats

if TYPE_CHECKING:
    from primbench.spec.captured import Captured


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Of so many steps the median; interval: of that, 95 %, None for fewer than six. waits_s: the median of how long
    the script waited for its data loader. unlike: how many of them called modules another number of times than the one
    whose parts were measured. elsewhere: in what the place where parts were measured is another, in words.
    """

    steps: int
    median_s: float
    interval: tuple[float, float] | None
    least_s: float
    most_s: float
    waits_s: float
    unlike: int = 0
    elsewhere: list[str] = []


def timed(captured: Captured | None, elsewhere: list[str] | None = None) -> Timed | None:
    """None where no step was timed."""
    if captured is None or not captured.times_s:
        return None
    return Timed(
        steps=len(captured.times_s),
        median_s=stats.quantile(captured.times_s, 0.5),
        interval=stats.median_interval(captured.times_s),
        least_s=min(captured.times_s),
        most_s=max(captured.times_s),
        waits_s=stats.quantile(captured.waits_s, 0.5) if captured.waits_s else 0.0,
        unlike=captured.unlike,
        elsewhere=elsewhere or [],
    )
