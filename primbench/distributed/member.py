"""Whether this process measures its node for a fleet, by what its launcher says."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from primbench.distributed.world import Launched, launched
from primbench.spec.fleet import Member

if TYPE_CHECKING:
    from collections.abc import Mapping

# How many nodes there are: torchrun's groups are its agents, one a node; srun(1). mpirun says how many tasks are here.
_NODES = {"torchrun": "GROUP_WORLD_SIZE", "srun": "SLURM_STEP_NUM_NODES"}
_A_GPU_EACH = "SLURM_GPUS_PER_TASK"  # srun(1): only set where it was asked for
_JOBS = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")


def member(variables: Mapping[str, str] = os.environ) -> Member | None:
    """None where another process measures this node: the first one there does, or each that has a GPU of its own.

    Raises InvalidRequest where the launcher's variables are none that it sets.
    """
    found = launched(variables)
    node = variables.get("SLURMD_NODENAME") or platform.node() or "node"
    if found is None:
        return Member(node=node, rank=0, of=1, job=_job(variables))
    each = found.launcher == "srun" and _A_GPU_EACH in variables
    if found.local_rank and not each:
        return None
    return Member(
        node=node,
        rank=found.rank,
        of=found.size if each else _nodes(variables, found),
        task=found.local_rank if each else None,
        launcher=found.launcher,
        job=_job(variables),
        nodes=variables.get("SLURM_STEP_NODELIST", "") if found.launcher == "srun" else "",
    )


def _nodes(variables: Mapping[str, str], found: Launched) -> int:
    """As many as the launcher says, else as there would be with as many processes on each as here."""
    text = variables.get(_NODES.get(found.launcher, ""), "")
    if text.isdecimal() and int(text):
        return int(text)
    return -(-found.size // (found.local_size or 1))


def _job(variables: Mapping[str, str]) -> str | None:
    """A step of a job of Slurm is a launch of its own."""
    name = next((variables[each] for each in _JOBS if variables.get(each)), None)
    step = variables.get("SLURM_STEP_ID")
    return f"{name}.{step}" if name and name == variables.get("SLURM_JOB_ID") and step else name
