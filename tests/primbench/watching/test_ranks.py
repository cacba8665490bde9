"""Ranks of a real job over gloo, of which one is late, and what is told of made-up seconds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result

from primbench.doctor.cause import Hindrance
from primbench.doctor.job import Stretch, ThreadUse
from primbench.system.cgroups import cgroup_folders
from primbench.watching.ranks import beyond, latest

from ...groups import ahead
from ...ports import free_port

RANKS, LATE = 4, 2
JOB = """
import os, sys, time
import torch, torch.distributed as dist

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
some, a, data = torch.ones(1000), torch.ones(200, 200), os.urandom(2**20)
os.write(1, f"{rank} {os.getpid()}\\n".encode())
while True:
    for _ in range(40):
        a @ a
    if rank == 2 and os.path.exists(sys.argv[1]):
        for _ in range(16):
            with open(sys.argv[1], "wb") as file:
                file.write(data)
                os.fsync(file.fileno())
    time.sleep(0.03)
    dist.all_reduce(some)
"""
LAUNCHER = ("-m", "torch.distributed.run", "--nproc-per-node", str(RANKS))


def seconds(awake: float, count: int = 10, looks: int = 10, waited_s: float = 0.0) -> list[Stretch]:
    thread = ThreadUse(number=1, process=1, parent=0, name=None, ran_s=0.1, waited_s=waited_s, cpus=[0])
    return [
        Stretch(
            time_s=number + 1.0, duration_s=1.0, process_count=1, thread_count=1, cpu_time_s=0.1, minor_faults=0,
            major_faults=0, threads=[thread], looks=looks, asleep=round(looks * (1 - awake)),
        )
        for number in range(count)
    ]  # fmt: skip


def told(seen: Mapping[int, list[Stretch]]) -> tuple[int, int] | None:
    found = latest(seen)
    return None if found is None else (found.rank, found.since)


def test_the_rank_that_sleeps_least_is_late_from_when_on_it_does() -> None:
    quiet = {rank: seconds(0.3) for rank in range(4)}
    assert told(quiet) is None
    assert (2, 0) == told(quiet | {2: seconds(0.9)})
    later = {rank: seconds(0.3, 20) for rank in range(4)} | {2: [*seconds(0.3, 6), *seconds(0.9, 20)[6:]]}
    assert (2, 6) == told(later)
    assert told({0: seconds(0.9)}) is None
    assert told(quiet | {2: seconds(0.9, 4)}) is None, "too few seconds"


def test_who_waits_longer_for_a_cpu_is_late_whatever_the_few_looks_saw() -> None:
    dice = random.Random(0)
    job = {rank: [seconds(dice.random(), 1, waited_s=0.02)[0] for _ in range(8)] for rank in range(4)}
    assert told(job) is None
    late = [seconds(dice.random(), 1, waited_s=dice.uniform(0.2, 0.3))[0] for _ in range(8)]
    assert (2, 0) == told(job | {2: late})


def test_of_jobs_in_which_no_rank_is_late_few_have_one_named() -> None:
    dice = random.Random(0)
    named = 0
    for _ in range(400):
        job = {
            rank: [seconds(dice.betavariate(3, 5), 1, waited_s=dice.betavariate(3, 5))[0] for _ in range(10)]
            for rank in range(4)
        }
        named += latest(job) is not None
    assert named <= 20


def test_what_all_ranks_suffer_from_makes_none_late() -> None:
    own = [held("cpu-contention", 0.4), held("asleep", 0.3), held("disk", 0.2)]
    others = [[held("cpu-contention", 0.38), held("asleep", 0.8)] for _ in range(3)]
    assert ["disk"] == [each.cause for each in beyond(own, others)]
    assert ["cpu-contention", "disk"] == [
        each.cause for each in beyond(own[:1] + own[2:], [[held("cpu-contention", 0.1)], [], []])
    ]
    assert [] == beyond(others[0], [others[0]])


def held(cause: str, share: float) -> Hindrance:
    return Hindrance(cause=cause, share=share, summary="", evidence=[], effect="")


class RealJob(NamedTuple):
    """Its launcher's number, that of the rank that is to be late, and the file that this one writes if it is there."""

    launcher: int
    late: int
    data: Path


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealJob]:
    """Four ranks of torchrun that add up by gloo after each step."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.py").write_text(JOB)
    words = [sys.executable, *LAUNCHER, "--master-port", str(free_port()), str(folder / "job.py"), str(folder / "data")]
    with (
        ahead(os.getpid()),  # the job, and what keeps it busy: the rest of the machine would make all ranks late
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as launcher,
    ):
        try:
            assert launcher.stdout is not None
            told = [launcher.stdout.readline().split() for _ in range(RANKS)]
            pids = {int(rank): int(pid) for rank, pid in told}
            yield RealJob(launcher.pid, pids[LATE], folder / "data")
        finally:
            os.killpg(launcher.pid, signal.SIGTERM)


def late(invoke: Callable[..., Result], job: RealJob) -> Any:
    """What is told of the rank that is late; None where none is."""
    lines = map(json.loads, invoke("watch", job.launcher, "--for", "8s", "-o", "-").stdout.splitlines())
    return next((each for each in lines if each["kind"] == "late"), None)


@pytest.mark.quiet
def test_no_rank_of_a_job_that_is_as_it_should_be_is_late(invoke: Callable[..., Result], job: RealJob) -> None:
    assert late(invoke, job) is None


@pytest.mark.quiet
def test_a_rank_under_a_quota_is_late_by_it(
    invoke: Callable[..., Result], job: RealJob, group: Callable[[str, dict[str, str]], Path]
) -> None:
    is_v1 = (cgroup_folders("cpu")[0] / "cpu.shares").exists()
    folder = group("cpu", {"cpu.cfs_quota_us": "5000"} if is_v1 else {"cpu.max": "5000 100000"})
    (folder / "cgroup.procs").write_text(str(job.late))
    try:
        found = late(invoke, job)
    finally:
        (folder.parent / "cgroup.procs").write_text(str(job.late))
    assert (LATE, "cpu-quota") == (found["rank"], found["hindrances"][0]["cause"])


@pytest.mark.quiet
def test_a_rank_on_one_cpu_with_busy_loops_is_late_by_them(invoke: Callable[..., Result], job: RealJob) -> None:
    allowed = os.sched_getaffinity(0)
    bind(job.late, {min(allowed)})
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        for each in loops:
            bind(each.pid, {min(allowed)})
        found = late(invoke, job)
    finally:
        for each in loops:
            each.kill()
            each.wait()
        bind(job.late, allowed)
    assert (LATE, "cpu-contention") == (found["rank"], found["hindrances"][0]["cause"])


def bind(pid: int, cpus: set[int]) -> None:
    """All threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cpus)


@pytest.mark.quiet
def test_a_rank_that_waits_for_a_disk_is_late(invoke: Callable[..., Result], job: RealJob) -> None:
    job.data.touch()
    try:
        found = late(invoke, job)
    finally:
        job.data.unlink()
    assert LATE == found["rank"]
    assert {each["cause"] for each in found["hindrances"][:1]} <= {"disk"}  # a fast one may cost less than is told
