"""What held a job back, with what was seen of it, and the study that would prove it."""

from __future__ import annotations

import msgspec

from primbench.quantities import Amount
from primbench.spec.setting import Activity


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause shows in a job."""

    cause: str = ""
    """The id of its cause, such as "cpu-quota", which who walks the table fills in."""
    share: Amount
    """Of the time, that it cost the job's busiest thread, as far as the numbers tell."""
    summary: str
    evidence: list[str]
    """The numbers, and where they were read."""
    distorts: list[Activity] | None = None
    """What it makes longer; None, until the table is walked, is what its cause's row says."""
    effect: str
    """How it does that."""
    study: str | None = None
    """The command that measures it with and without, the job's own settings filled in; None where no arm has it."""
