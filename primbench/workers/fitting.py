"""Whether a case can have as many ranks as it asks for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.spec.arm import Arm, cpus_asked

if TYPE_CHECKING:
    from primbench.distributed.world import World
    from primbench.spec.case import Case


def too_many_or_few(case: Case, world: World | None, arm: Arm | None, gpus: int | None) -> str | None:
    """Why a case cannot have the ranks it asks for; None where it can.

    world: of the processes that a launcher started. gpus: how many there are, None where that is not known yet.
    """
    if case.ranks == 1:
        return None
    if world is not None and arm is None:
        return None if case.ranks == world.size else f"{case.ranks} ranks: {world.launcher} started {world.size}"
    return None if arm is not None and arm.is_far else _too_many_here(case, arm, gpus)


def _too_many_here(case: Case, arm: Arm | None, gpus: int | None) -> str | None:
    if case.on.is_gpu and gpus is not None and case.ranks > gpus:
        return f"{case.ranks} ranks need {case.ranks} GPUs, and see {gpus}: fewer ranks, or device=cpu"
    cpus = len(case.placement.cpus or (arm and cpus_asked(arm)) or os.sched_getaffinity(0))
    return None if case.ranks <= cpus else f"{case.ranks} ranks need a CPU each, and may use {cpus}: fewer ranks"
