"""Whether this process measures its node, or a GPU of it, for a fleet: by its launcher and the GPUs that it sees."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, NamedTuple

from primbench.distributed.world import Launched, launched
from primbench.errors import InvalidRequest, PlacementError
from primbench.gpu.nvidia import nvml
from primbench.spec.fleet import Member

if TYPE_CHECKING:
    from collections.abc import Mapping

# How many nodes there are: torchrun's groups are its agents, one a node; srun(1). mpirun says how many tasks are here.
_NODES = {"torchrun": "GROUP_WORLD_SIZE", "srun": "SLURM_STEP_NUM_NODES"}
_A_GPU_EACH = "SLURM_GPUS_PER_TASK"  # srun(1): only set where it was asked for
_JOBS = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")


class Gpus(NamedTuple):
    """GPUs that processes of a node share out."""

    seen: tuple[int, ...] = ()
    """The numbers, among those of the node as nvidia-smi counts, of the GPUs that CUDA sees, in its order."""
    on_node: int = 0
    """How many the node shows to this process. Both are empty where no GPU is to be measured."""


NO_GPUS = Gpus()


def visible_gpus() -> Gpus:
    """NO_GPUS where NVML cannot be used. An instance of MIG has the number of its place among those that are seen."""
    try:
        seen, boards = nvml.visible_devices(), [nvml.address_of(each.board) for each in nvml.boards()]
        numbers = [boards.index(nvml.address_of(each.board)) for each in seen]
    except (PlacementError, LookupError, ValueError):
        return NO_GPUS
    is_told_apart = len(set(numbers)) == len(numbers)
    return Gpus(tuple(numbers if is_told_apart else range(len(numbers))), len(boards))


def member(variables: Mapping[str, str] = os.environ, gpus: Gpus = NO_GPUS) -> Member | None:
    """None where another process measures this node: the first one there does, or each process a GPU of its own.

    gpus: of which each process on a node is to measure one; the first measures all where there are none. Raises
    InvalidRequest where the launcher's variables are none that it sets, or two processes would measure one GPU.
    """
    found = launched(variables)
    node = variables.get("SLURMD_NODENAME") or platform.node() or "node"
    if found is None:
        return Member(node=node, rank=0, of=1, job=_job(variables))
    own = _own_gpu(variables, found, gpus)
    if found.local_rank and own is None:
        return None
    return Member(
        node=node,
        rank=found.rank,
        of=_nodes(variables, found) if own is None else found.size,
        task=own,
        launcher=found.launcher,
        job=_job(variables),
        nodes=variables.get("SLURM_STEP_NODELIST", "") if found.launcher == "srun" else "",
    )


def narrowed(found: Member, gpus: Gpus, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a process's variables are to be changed by, for it to see its own GPU alone, as "cuda:0"."""
    if len(gpus.seen) < 2 or found.task not in gpus.seen or _A_GPU_EACH in variables:
        return {}
    place = gpus.seen.index(found.task)
    entries = variables.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return {"CUDA_VISIBLE_DEVICES": entries[place].strip() if place < len(entries) and entries[place] else str(place)}


def _own_gpu(variables: Mapping[str, str], found: Launched, gpus: Gpus) -> int | None:
    """Its number on the node. Slurm can give each task GPUs of its own, and hide which of the node's these are."""
    is_given = found.launcher == "srun" and _A_GPU_EACH in variables
    if len(gpus.seen) == 1 and gpus.on_node > 1 and (is_given or _processes_here(variables, found) > 1):
        return gpus.seen[0]
    return found.local_rank if is_given else _shared_out(_processes_here(variables, found), found, gpus)


def _shared_out(processes: int, found: Launched, gpus: Gpus) -> int | None:
    """Of the GPUs that all processes of the node see."""
    if processes == 1 or len(gpus.seen) < 2:
        return None
    if processes > len(gpus.seen):
        raise InvalidRequest(
            f"{processes} processes on this node, and {len(gpus.seen)} GPUs that they see: start one for each GPU, or "
            "one for the node"
        )
    return gpus.seen[found.local_rank]


def _processes_here(variables: Mapping[str, str], found: Launched) -> int:
    return found.local_size or -(-found.size // _nodes(variables, found))


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
