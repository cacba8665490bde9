"""What tells the places of two sides apart, and what a difference in time may therefore be called."""

from __future__ import annotations

from collections.abc import Mapping

from primbench.compare.comparison import Effect
from primbench.compare.sides import Side
from primbench.environment.difference import Change, Difference, Part, difference


def differences(baseline: Side, side: Side) -> dict[str, Difference]:
    """Backend and device -> what differs between the first worker of each side."""
    served = dict.fromkeys((record.case.backend, record.case.device) for record in baseline.records)
    found = {}
    for backend, device in served:
        one, other = baseline.worker_of(backend, device), side.worker_of(backend, device)
        if one is not None and other is not None:
            found[f"{backend} {device}"] = difference(one.environment, other.environment)
    return found


def effect_of(baseline: Side, side: Side, found: Mapping[str, Difference]) -> Effect | None:
    """Never a container's where builds differ: the time is theirs then. None where that is not known."""
    if any(each.stack.same is False for each in found.values()):
        return "stack effect"
    if any(each.machine.same is False for each in found.values()):
        return "machine effect"
    if not found or any(each.stack.same is None for each in found.values()):
        return None
    return "container effect" if any(map(_in_container, (baseline, side))) else "place effect"


def _in_container(side: Side) -> bool:
    used = {record.worker for record in side.records}
    runtimes = [worker.environment.confinement.runtime for number, worker in side.workers.items() if number in used]
    return any(runtime is not None and runtime.in_container for runtime in runtimes)


def changes_of(found: Mapping[str, Difference], *parts: Part) -> list[Change]:
    """What is known to differ in these parts, each field once."""
    changes = {
        change.field: change
        for each in found.values()
        for part in parts
        for change in getattr(each, part).changes
        if change.kind == "differs"
    }
    return list(changes.values())
