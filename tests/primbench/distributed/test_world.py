from __future__ import annotations

import pytest

from primbench.distributed.world import World, world
from primbench.errors import InvalidRequest

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "node7",
    "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "a",
}  # fmt: skip
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "job-1",
}  # fmt: skip
HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "gpu[007-008],other", "SLURM_JOB_ID": "12",
}  # fmt: skip


def told(variables: dict[str, str]) -> World:
    found = world(variables)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("expected", "variables"),
    [
        (("torchrun", 3, 4, 1, "node7"), TORCHRUN),
        (("mpirun", 1, 2, 1, "127.0.0.1"), MPIRUN),
        (("mpirun", 1, 2, 1, "127.0.0.1"), MPIRUN | SRUN),
        (("mpiexec", 0, 2, 0, "127.0.0.1"), HYDRA),
        (("srun", 5, 8, 1, "gpu007"), SRUN),
        (("srun", 5, 8, 1, "gpu3"), SRUN | {"SLURM_STEP_NODELIST": "gpu3"}),
        (("srun", 5, 8, 1, "127.0.0.1"), SRUN | {"SLURM_STEP_NUM_NODES": "1"}),
        (("torchrun", 3, 4, 1, "127.0.0.1"), TORCHRUN | {"LOCAL_WORLD_SIZE": "4"}),
        (("srun", 5, 8, 1, "named"), SRUN | {"MASTER_ADDR": "named"}),
    ],
)
def test_launchers_are_told_by_their_variables(
    expected: tuple[str, int, int, int, str], variables: dict[str, str]
) -> None:
    found = told(variables)
    assert expected == (found.launcher, found.rank, found.size, found.local_rank, found.address)


@pytest.mark.parametrize("variables", [{}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_NTASKS": "4"}])
def test_one_process_is_no_world(variables: dict[str, str]) -> None:
    assert world(variables) is None


def test_the_port_is_named_or_beside_torchruns_or_that_of_the_job() -> None:
    assert 29501 == told(TORCHRUN).port
    assert 4000 == told(TORCHRUN | {"PRIMBENCH_PORT": "4000"}).port
    assert told(MPIRUN).port == told(MPIRUN | {"OMPI_COMM_WORLD_RANK": "0"}).port
    assert told(MPIRUN).port != told(MPIRUN | {"PMIX_NAMESPACE": "job-2"}).port


def test_the_secret_is_that_of_the_job() -> None:
    assert told(SRUN).secret == told(SRUN | {"SLURM_PROCID": "0"}).secret
    assert told(SRUN).secret != told(SRUN | {"SLURM_JOB_ID": "13"}).secret
    assert told(SRUN).secret != told(SRUN | {"PRIMBENCH_SECRET": "x"}).secret


@pytest.mark.parametrize(
    ("expected", "variables"),
    [
        ("set MASTER_ADDR to the host of rank 0", MPIRUN | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}),
        ("set MASTER_ADDR", SRUN | {"SLURM_STEP_NODELIST": ""}),
        ("MASTER_ADDR='a..b' in the environment", TORCHRUN | {"MASTER_ADDR": "a..b"}),
        ("RANK='x' in the environment", TORCHRUN | {"RANK": "x"}),
        ("RANK=4 of WORLD_SIZE=4 in the environment: ranks count from 0", TORCHRUN | {"RANK": "4"}),
        ("WORLD_SIZE='-4' in the environment", TORCHRUN | {"WORLD_SIZE": "-4"}),
        ("port 65536 for the processes", TORCHRUN | {"MASTER_PORT": "65535"}),
        ("port 0 for the processes", TORCHRUN | {"PRIMBENCH_PORT": "0"}),
    ],
)
def test_what_cannot_be_known_is_one_clear_line(expected: str, variables: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        world(variables)
