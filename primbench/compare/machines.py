"""Whether two arms of a study ran on one machine, whatever names it was reached by, and what was sent to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.compare.sides import Side
    from primbench.results.record import Worker
    from primbench.spec.variables import Reason

OF_WHAT: Mapping[Reason, str] = {
    "instructions": "code for a CPU",
    "cache-sizes": "sizes of a CPU's caches",
    "cpus": "numbers of CPUs",
    "gpus": "names of GPUs",
    "host": "the name of a machine",
    "path": "paths",
}


def are_apart(one: Sequence[Worker], other: Sequence[Worker]) -> bool:
    """Whether two arms had no kernel in common; by the names of machines where a kernel has no identity.

    Of one study, in which both arms go through every start of a machine.
    """
    of_one, of_other = (_boots(workers) for workers in (one, other))
    if of_one and of_other:
        return of_one.isdisjoint(of_other)
    return _hosts(one).isdisjoint(_hosts(other))


def are_of_one_host(one: Sequence[Worker], other: Sequence[Worker]) -> bool:
    """Whether all of both were started on the machine that asked, be it under a kernel of their own, as in gVisor."""
    return all(worker.arm is not None and not worker.arm.is_far for worker in (*one, *other))


def have_other_kernels(one: Sequence[Worker], other: Sequence[Worker]) -> bool:
    """Whether they have no kernel in common by its identity, or one alone has such an identity, as gVisor has none."""
    of_one, of_other = (_boots(workers) for workers in (one, other))
    return bool(of_one or of_other) and of_one.isdisjoint(of_other)


def _boots(workers: Sequence[Worker]) -> set[str]:
    return {boot for worker in workers if (boot := worker.environment.machine.boot_id) is not None}


def _hosts(workers: Sequence[Worker]) -> set[str | None]:
    return {worker.arm.machine if worker.arm else None for worker in workers}


def notes_sent(sides: Sequence[Side]) -> Iterator[str]:
    """Which variables of libraries each arm on another machine was given, and which not."""
    for side in sides:
        found = {str(worker.sent): worker.sent for worker in side.used if worker.sent}
        for sent in found.values():
            left = ", ".join(f"{name} ({OF_WHAT[reason]})" for name, reason in sent.left.items())
            given = f"given of the variables here: {', '.join(sent.carried) or 'none'}"
            stayed = f"; not given, since they are of this machine: {left}; env.NAME gives one on" if left else ""
            if sent.carried or sent.left:
                yield f"{side.name} was {given}{stayed}"
