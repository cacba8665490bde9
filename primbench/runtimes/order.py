"""What a supervisor is to start: in which arm, and what."""

from __future__ import annotations

import msgspec

from primbench.spec.arm import Arm


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor is to start."""

    arm: Arm
    """The arm to start a worker in."""
    gpus: bool
    """Whether the worker needs GPUs."""
    command: list[str] | None = None
    """What to start in place of the worker; None is the worker."""
    is_from_afar: bool = False
    """Whether who gave it is on another machine: that one hears of exit statuses alone and of no signals, and does not
    know where Python is, with which the command begins.
    """
