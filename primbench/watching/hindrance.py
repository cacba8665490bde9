"""What held a job back, with what was seen of it, and the study that would prove it."""

from __future__ import annotations

import msgspec

from primbench.doctor.finding import Activity
from primbench.quantities import Amount


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """One cause.

    cause: its short name, such as "cpu-quota". share: of the time, that it cost the job's busiest thread, as far as the
    numbers tell. evidence: the numbers, and where they were read. distorts: what it makes longer, effect: how.
    study: the command that measures it with and without, the job's own settings filled in; None where no arm has it.
    """

    cause: str
    share: Amount
    summary: str
    evidence: list[str]
    distorts: list[Activity]
    effect: str
    study: str | None
