"""What a supervisor is to start: in which arm, and what."""

from __future__ import annotations

import msgspec

from primbench.spec.arm import Arm


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """arm: to start a worker in. gpus: whether it needs them. command: in place of the worker.

    is_from_afar: whether who gave it is on another machine, hears of exit statuses alone and of no signals, and does
    not know where Python is, with which the command begins.
    """

    arm: Arm
    gpus: bool
    command: list[str] | None = None
    is_from_afar: bool = False
