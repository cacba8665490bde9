from __future__ import annotations

import platform

import pytest

from primbench.errors import InvalidRequest
from primbench.fleet.member import Gpus, member, narrowed
from primbench.spec.fleet import Member

SRUN = {
    "SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "gpu[07-08]", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3", "SLURMD_NODENAME": "gpu08",
}  # fmt: skip
TORCHRUN = {
    "RANK": "8", "WORLD_SIZE": "24", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "3",
    "TORCHELASTIC_RUN_ID": "a",
}  # fmt: skip
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "b",
}  # fmt: skip
HERE = platform.node() or "node"


@pytest.mark.parametrize(
    ("expected", "variables"),
    [
        (Member(node=HERE, rank=0, of=1), {}),
        (Member(node="gpu08", rank=4, of=2, launcher="srun", job="12.3", nodes="gpu[07-08]"), SRUN),
        (Member(node=HERE, rank=8, of=3, launcher="torchrun", job="a"), TORCHRUN),
        (Member(node=HERE, rank=4, of=2, launcher="mpirun", job="b"), MPIRUN),
        (Member(node="gpu08", rank=4, of=2, launcher="mpirun", job="12.3"), SRUN | MPIRUN),
        (
            Member(node="gpu08", rank=6, of=8, task=2, launcher="srun", job="12.3", nodes="gpu[07-08]"),
            SRUN | {"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_GPUS_PER_TASK": "1"},
        ),
        (None, SRUN | {"SLURM_PROCID": "5", "SLURM_LOCALID": "1"}),
        (None, TORCHRUN | {"RANK": "9", "LOCAL_RANK": "1"}),
    ],
)
def test_the_first_process_of_each_node_measures_it(expected: Member | None, variables: dict[str, str]) -> None:
    assert expected == member(variables)


FOUR = Gpus(seen=(0, 1, 2, 3), on_node=4)
ALONE = Gpus(seen=(2,), on_node=8)


@pytest.mark.parametrize(
    ("expected", "visible", "variables", "gpus"),
    [
        ("gpu2 of 24", "2", TORCHRUN | {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}, FOUR),
        ("gpu6 of 24", "6", TORCHRUN | {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "4,5,6,7"},
         Gpus(seen=(4, 5, 6, 7), on_node=8)),
        ("gpu2 of 24", None, TORCHRUN | {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "2"}, ALONE),
        ("gpu3 of 6", "3", MPIRUN | {"OMPI_COMM_WORLD_LOCAL_RANK": "3"}, FOUR),
        ("gpu1 of 8", "1", SRUN | {"SLURM_LOCALID": "1", "SLURM_PROCID": "5"}, FOUR),
        ("gpu1 of 8", None, SRUN | {"SLURM_LOCALID": "1", "SLURM_PROCID": "5", "SLURM_GPUS_PER_TASK": "1"},
         Gpus(seen=(0,), on_node=1)),
        ("gpu2 of 8", None, SRUN | {"SLURM_LOCALID": "1", "SLURM_PROCID": "5", "SLURM_GPUS_PER_TASK": "1"}, ALONE),
        # The node as a whole: one process on it, or one GPU that all see.
        ("None of 3", None, TORCHRUN | {"WORLD_SIZE": "3", "RANK": "1", "LOCAL_WORLD_SIZE": "1"}, FOUR),
        ("None of 3", None, TORCHRUN, Gpus(seen=(0,), on_node=1)),
        ("none", None, TORCHRUN | {"LOCAL_RANK": "1"}, Gpus(seen=(0,), on_node=1)),
        ("none", None, SRUN | {"SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": ""}, Gpus(seen=(), on_node=4)),
    ],
)  # fmt: skip
def test_each_process_measures_a_gpu_of_its_own(
    expected: str, visible: str | None, variables: dict[str, str], gpus: Gpus
) -> None:
    """visible: what it is to see of those that it sees now."""
    found = member(variables, gpus)
    assert expected == ("none" if found is None else f"{found.task and f'gpu{found.task}'} of {found.of}")
    assert visible == (found and narrowed(found, gpus, variables).get("CUDA_VISIBLE_DEVICES"))


def test_a_gpu_is_called_by_its_node_and_number() -> None:
    found = [member(SRUN | {"SLURM_LOCALID": local, "SLURM_GPUS_PER_TASK": "1"}) for local in "01"]
    assert ["gpu08:gpu0", "gpu08:gpu1"] == [each.name for each in found if each]


def test_more_processes_than_gpus_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="8 processes on this node, and 4 GPUs that they see: start one for each"):
        member(TORCHRUN, FOUR)


def test_no_number_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="SLURM_PROCID='x' in the environment"):
        member(SRUN | {"SLURM_PROCID": "x"})
