"""The causes that the numbers of a stretch speak for, the likeliest first: those that cost the most time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doctor.table import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.cause import Hindrance
    from primbench.doctor.job import Job, Stretch

LEAST_SHARE = 0.05  # of the time; a cause that costs less is not told


def hindrances(whole: Stretch, job: Job) -> list[Hindrance]:
    """whole: all that was watched; [] where nothing in it held the job back. What it does itself comes last."""
    found = [each for each in _all(whole, job) if each.share >= LEAST_SHARE] if whole.duration_s else []
    untold = {away for each in found for away in causes()[each.cause].explains_away if away != each.cause}
    told = [each for each in found if each.cause not in untold]
    return sorted(told, key=lambda each: (causes()[each.cause].order_in_job, -each.share))


def _all(whole: Stretch, job: Job) -> Iterator[Hindrance]:
    """What each row sees in it, with what the row says of all of these."""
    for cause in causes().values():
        for each in cause.in_job(whole, job) if cause.in_job is not None else ():
            distorts = [*cause.slows] if each.distorts is None else each.distorts
            yield replace(each, cause=cause.id, distorts=distorts)
