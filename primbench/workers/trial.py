"""Whether a runtime that is installed starts anything: a container of this machine's own root, which ends at once.

What stands in the way shows only then: limits that a runtime may not raise, control groups it does not know, a network
it has not got.
"""

from __future__ import annotations

import os
import selectors
import sys
import time

import msgspec

from primbench.distributed.child import Child
from primbench.errors import PrimbenchError
from primbench.runtimes.order import Order
from primbench.runtimes.refusals import refusal
from primbench.runtimes.table import known
from primbench.spec.arm import Arm
from primbench.workers import protocol
from primbench.workers.protocol import Refusal

STARTS_WITHIN_S = 20.0
NEEDS_A_MACHINE = "to a machine that is named: none was connected to"
NEEDS_AN_IMAGE = "with an image of its own: none was started"
NOT_BOOTED = "nothing that it needs is lacking: none was booted"


def works_here(name: str) -> tuple[str, str]:
    """Whether a runtime starts a container here, "yes" or "no: REASON", and its version."""
    runtime = known()[name]
    reason, version = why_not(name)
    if reason is not None:
        return f"no: {reason}", version
    if runtime.reached_by is not None:
        return f"yes, {NEEDS_A_MACHINE}", version
    untried = NOT_BOOTED if runtime.boots else NEEDS_AN_IMAGE if runtime.needs_image else None
    return f"yes, {untried}" if untried else "yes", version


def why_not(name: str) -> tuple[str | None, str]:
    """Why a runtime starts nothing here, None where it does or nothing was tried, and its version."""
    runtime = known()[name]
    reason, version = runtime.found()
    if reason is None and starts_host_root(name):
        reason = refused(Arm(name=name, runtime=name))
    return reason, version


def starts_host_root(name: str) -> bool:
    """Whether it starts containers on this machine, of the machine's own root, in no time to speak of."""
    runtime = known()[name]
    return name != "host" and runtime.reached_by is None and not (runtime.needs_image or runtime.boots)


def refused(arm: Arm, within_s: float = STARTS_WITHIN_S) -> str | None:
    """Why no container starts in an arm, with the way out, in one line; None where one does. Nothing is left of it."""
    order = protocol.encode(Order(arm=arm, gpus=False, command=[sys.executable, "-P", "-c", "pass"])).decode()
    try:
        child = Child("container", "primbench.workers.supervisor", [order], verbose=False, clears_up=True)
    except PrimbenchError as error:
        return str(error)
    try:
        said = _said(child, within_s)
    finally:
        child.end()
    return None if said is None else refusal(arm, said)


def _said(child: Child, within_s: float) -> str | None:
    """What the trial's child said went wrong, or how it died; None where all went well."""
    deadline, heard = time.monotonic() + within_s, b""
    with selectors.PollSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(child.stdout, 1 << 16)
            if not chunk:
                break
            heard += chunk
        else:
            return f"no container has started and ended within {within_s:g} s"
    cause = child.cause_of_death()
    if not child.has_failed:
        return None
    try:
        return msgspec.json.decode(heard, type=Refusal).reason
    except msgspec.MsgspecError:
        return cause
