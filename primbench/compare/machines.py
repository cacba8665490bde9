"""Whether two arms of a study ran on one machine, whatever names it was reached by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.results.record import Worker


def are_apart(one: Sequence[Worker], other: Sequence[Worker]) -> bool:
    """Whether two arms had no kernel in common; by the names of machines where a kernel has no identity.

    Of one study, in which both arms go through every start of a machine.
    """
    of_one, of_other = (_boots(workers) for workers in (one, other))
    if of_one and of_other:
        return of_one.isdisjoint(of_other)
    return _hosts(one).isdisjoint(_hosts(other))


def _boots(workers: Sequence[Worker]) -> set[str]:
    return {boot for worker in workers if (boot := worker.environment.machine.boot_id) is not None}


def _hosts(workers: Sequence[Worker]) -> set[str | None]:
    return {worker.arm.machine if worker.arm else None for worker in workers}
