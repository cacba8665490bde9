"""Where processes and their memory were put, what ran beside them, and what stopped them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes._job_cpus import is_stopped
from primbench.causes._job_waits import sleeps, slow_workers, threads_in_turn
from primbench.compare.differing import placement
from primbench.compare.effects import changes_of
from primbench.compare.neighbour import neighbours
from primbench.compare.stopped import stopped_threads
from primbench.doctor.cause import LATE, Cause, Suspect
from primbench.system.files import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.numa.placement import EffectivePlacement

RANK = 5


def placed_otherwise(beside: Beside) -> Iterator[Suspect]:
    """CPUs and threads that were had, where what the workers saw does not tell of them; and what was not had."""
    baseline, side, differing = beside.baseline, beside.side, beside.differing
    if not {"copy", "collective", "everything on the CPU", "launch"}.isdisjoint(beside.parts):
        found = placement(baseline, side, changes_of({"": differing}, "limits", "stack") if differing else [])
        yield from (Suspect(each.words, about=(each.about,)) for each in found)
    for each, other in ((side, baseline), (baseline, side)):
        lacks = [*(each.lacks if _has_choice_of_memory(each) else []), *each.thread_lacks]
        lacking = (lack for lack in lacks if lack not in (*other.lacks, *other.thread_lacks))
        yield from (Suspect(f"{each.name} was not placed as asked: {lack}") for lack in lacking)


def _has_choice_of_memory(side: Side) -> bool:
    """Whether any machine of this side has more than one memory node to take memory from."""
    return any(len(worker.environment.nodes or []) > 1 for worker in side.used)


def memory_taken_otherwise(beside: Beside) -> Iterator[Suspect]:
    """Memory taken by another policy or from other nodes, where it matters to the parts and there is a choice."""
    sides = (beside.baseline, beside.side)
    of_memory = {"copy", "collective", "everything on the CPU"}
    if of_memory.isdisjoint(beside.parts) or not any(map(_has_choice_of_memory, sides)):
        return
    one, other = (_memory_of(worker.placement) if worker else "" for worker in map(beside.worker, sides))
    if one != other:
        yield Suspect(f"memory is taken {other} in {beside.side.name} and {one} in {beside.baseline.name}")


def _memory_of(placement: EffectivePlacement) -> str:
    nodes = format_cpu_list(placement.page_nodes)
    how = {"bind": f"by the policy {placement.memory_policy}", "first touch": "by first touch", "none": "anywhere"}
    return f"{how[placement.rung]}{f' of nodes {nodes}' if nodes else ''}"


CAUSES = (
    Cause("neighbour", upstream=0, between=neighbours),
    Cause("stopped", slows=("launch", "copy", "everything on the CPU", "data loading"), upstream=4.9, stops=True,
          explains_away=("asleep", "launches"), between=stopped_threads, in_job=is_stopped),
    Cause("placement", upstream=LATE, between=placed_otherwise),
    Cause("memory-placement", upstream=7, between=memory_taken_otherwise),
    Cause("workers", slows=("data loading",), explains_away=("launches",), in_job=slow_workers),
    Cause("turns", slows=("everything on the CPU", "launch", "data loading"), explains_away=("launches",),
          in_job=threads_in_turn),
    Cause("asleep", slows=("everything on the CPU", "launch", "data loading"), explains_away=("launches",),
          in_job=sleeps),
)  # fmt: skip
