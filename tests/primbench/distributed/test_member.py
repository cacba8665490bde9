from __future__ import annotations

import platform

import pytest

from primbench.distributed.member import member
from primbench.errors import InvalidRequest
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


def test_tasks_with_a_gpu_each_have_names_of_their_own() -> None:
    found = [member(SRUN | {"SLURM_LOCALID": local, "SLURM_GPUS_PER_TASK": "1"}) for local in "01"]
    assert ["gpu08:0", "gpu08:1"] == [each.name for each in found if each]


def test_no_number_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="SLURM_PROCID='x' in the environment"):
        member(SRUN | {"SLURM_PROCID": "x"})
