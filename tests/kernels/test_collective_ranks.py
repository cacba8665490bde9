"""Collectives between processes: two that primbench starts, and three that a launcher does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from primbench.backends import missing
from primbench.kernels.collective.problem import OPERATIONS
from primbench.results import file as results_file

WITHOUT_TORCH = pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
BACKENDS = ["numpy", pytest.param("torch", marks=[pytest.mark.wheel, WITHOUT_TORCH])]
TIMES = ["--device=cpu", "--min-time=1ms", "--max-time=5ms"]
ASKED = ["--bytes=1KiB", "--dtype=bfloat16", *(f"--operation={each}" for each in OPERATIONS)]
SKEWED = ["--bytes=4KiB", "--operation=all_to_all", "--split=zipf"]


def verified(
    backend: str,
    file: Path,
    ranks: int,
    *,
    launched: bool,
    sizes: Sequence[str] = ASKED,
    of: Sequence[str] = OPERATIONS,
) -> None:
    """Every operation in its place and, where there is a second way, out of it, between so many processes."""
    asked = ["collective", *sizes, *TIMES, "--backend", backend, *([] if launched else [f"--ranks={ranks}"])]
    left = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    command = [sys.executable, "-P", "-m", "primbench", *asked, "-o", str(file)]
    running = [
        subprocess.Popen(
            command, env=left | (open_mpi(rank, ranks) if launched else {}), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks if launched else 1)
    ]  # fmt: skip
    said = [each.communicate(timeout=120)[0] for each in running]
    assert [0] * len(running) == [each.returncode for each in running], said
    found = results_file.read(file).records
    assert [("ok", ranks, each) for each in of] == [
        (each.status, each.case.ranks, each.case.parameters["operation"]) for each in found
    ], [each.reason for each in found]
    assert all(each.measurement and each.measurement.verified for each in found)


def open_mpi(rank: int, ranks: int) -> dict[str, str]:
    """What Open MPI's mpirun sets for processes on one host."""
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    sizes = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
    return dict.fromkeys(names, str(rank)) | dict.fromkeys(sizes, str(ranks)) | {"PMIX_NAMESPACE": f"c-{os.getpid()}"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ranks_receive_it(backend: str, tmp_path: Path) -> None:
    verified(backend, tmp_path / "results.jsonl", 2, launched=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_three_ranks_of_a_launcher_receive_it(backend: str, tmp_path: Path) -> None:
    verified(backend, tmp_path / "results.jsonl", 3, launched=True)


@pytest.mark.wheel
@WITHOUT_TORCH
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")
def test_two_ranks_of_gloo_receive_skewed_shares(tmp_path: Path) -> None:
    verified("torch", tmp_path / "results.jsonl", 2, launched=False, sizes=SKEWED, of=["all_to_all"])
