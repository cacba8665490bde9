"""A script's step as a whole: others like it, timed as they ran when it was captured."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.captured import Captured


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Of so many steps the median; interval: of that, 95 %, None for fewer than six. waits_s: the median of how long
    the script waited for its data loader. queues_s: by how much the median is longer since its thread waited for a
    CPU; None where that is not known. between_s: no less than this passed between operators, in Python, modules and
    autograd; None where it is not known, steps differ, or their median is known no better than this. unlike: how many
    of them called other modules than the one whose parts were measured, or them other times. elsewhere: in what the
    place where parts were measured is another, in words.
    """

    steps: int
    median_s: float
    interval: tuple[float, float] | None
    least_s: float
    most_s: float
    waits_s: float
    queues_s: float | None = None
    between_s: float | None = None
    unlike: int = 0
    elsewhere: list[str] = []


def timed(captured: Captured | None, elsewhere: list[str] | None = None) -> Timed | None:
    """None where no step was timed."""
    if captured is None or not captured.times_s:
        return None
    times_s = captured.times_s
    ran_s = [time_s - queued_s for time_s, queued_s in zip(times_s, captured.queues_s, strict=False)]
    median_s = stats.quantile(times_s, 0.5)
    return Timed(
        steps=len(times_s),
        median_s=median_s,
        interval=stats.median_interval(times_s),
        least_s=min(times_s),
        most_s=max(times_s),
        waits_s=stats.quantile(captured.waits_s, 0.5) if captured.waits_s else 0.0,
        queues_s=median_s - stats.quantile(ran_s, 0.5) if ran_s else None,
        between_s=_between_s(captured, ran_s or times_s),
        unlike=captured.unlike,
        elsewhere=elsewhere or [],
    )


def _between_s(captured: Captured, ran_s: Sequence[float]) -> float | None:
    """ran_s: how long each step lasted, without what it waited for a CPU. None where their scatter hides it, too."""
    if not captured.inside_s or captured.unlike:
        return None
    active_s = [each - waited_s for each, waited_s in itertools.zip_longest(ran_s, captured.waits_s, fillvalue=0.0)]
    between_s = stats.quantile(active_s, 0.5) - stats.quantile(captured.inside_s, 0.5)
    low_s, high_s = stats.median_interval(active_s) or (0.0, 0.0)
    return None if 0 < between_s < high_s - low_s else max(0.0, between_s)
