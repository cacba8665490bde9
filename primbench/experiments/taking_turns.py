"""Whether the processes of a pair can take turns, by what their arms ask for and their workers found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.compare.machines import are_apart
from primbench.devices import Device
from primbench.spec.arm import Arm, in_words, settings_of
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.results.record import Worker

ENQUEUING_CPUS = 2.0  # what a process that keeps a GPU busy uses of CPUs, its driver's threads included


def bound_to_cpus(arms: Iterable[Arm]) -> str | None:
    """What of an arm processes would not show that take turns, for which all are bound to one CPU."""
    for arm in arms:
        for row in map(SETTINGS.__getitem__, settings_of(arm)):
            if row.is_alone:
                return f"{arm.name} has {in_words(arm, row.field)}, which turns on one CPU would not show"
    return None


def why_not(workers: Sequence[Worker], ranks: int) -> str | None:
    """Why these take no turns; None where they can. ranks: processes of each that work at the same time."""
    if any(are_apart(workers[:1], [worker]) for worker in workers[1:]):
        return "the arms are on different machines"
    if workers and not shared_cpus(workers):
        return "there is no CPU that all arms may use"
    for worker in workers:
        if (quota := _too_small_quota(worker, ranks)) is not None:
            name = worker.arm.name if worker.arm else ""
            return f"{name} has a quota of {quota:g} CPUs, which processes that wait for others would not use up"
    return None


def shared_cpus(workers: Sequence[Worker]) -> list[int]:
    return sorted(set[int].intersection(*(set(worker.placement.cpus) for worker in workers)))


def _too_small_quota(worker: Worker, ranks: int) -> float | None:
    quota = worker.environment.limits.cpu_quota
    return None if quota is None or quota >= ranks * _cpus_used(worker) else quota


def _cpus_used(worker: Worker) -> float:
    return ENQUEUING_CPUS if Device.parse(worker.device).is_gpu else worker.placement.threads or 1
