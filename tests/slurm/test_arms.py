"""Arms on nodes of an allocation: each worker is a step of the job, by Slurm's own srun."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from primbench.errors import BackendUnavailable
from primbench.results import file as results_file
from primbench.spec.arm import Arm, parse_arm
from primbench.workers.process import WorkerGone, WorkerProcess

from ..endless import ENDLESS, START

PRIMBENCH = [sys.executable, "-P", "-m", "primbench"]
QUICK = ["--backend", "numpy", "--device", "cpu", "--min-time", "5ms", "--max-time", "20ms"]
PYTHON = f"python={sys.executable}"
MARK = "PRIMBENCH_TEST_MARK"
GONE_WITHIN_S = 60


def test_host_and_node_take_turns_and_a_node_that_is_none_of_the_job_holds_up_nobody(
    slurm: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.toml").write_text("[[gemm]]\nm = 64\nn = 64\nk = 64\n")
    arms = ["host", f"slurm:node=n2,{PYTHON},nice=5,name=n2", f"slurm:n9,{PYTHON},name=n9"]
    words = [word for arm in arms for word in ("--arm", arm)]
    study = [*PRIMBENCH, "study", str(tmp_path / "one.toml"), *words, "--pairs", "2", *QUICK]
    command = ["salloc", "-Q", "-w", "n[1-3]", *study, "-o", str(tmp_path / "s.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = results_file.read(tmp_path / "s.jsonl")
    assert {("host", "ok"), ("n2", "ok"), ("n9", "skipped")} == {(each.case.arm, each.status) for each in found.records}
    assert all(record.measurement.turns for record in found.records if record.measurement)
    assert {5} == {worker.environment.limits.niceness for worker in found.workers if worker.arm and worker.arm.is_far}
    (told,) = [line for line in done.stderr.splitlines() if "runs nothing" in line]
    assert "Requested node configuration is not available: n9 is none of this job's" in told


class Process(NamedTuple):
    pid: int
    words: str
    node: str | None


def of_test(mark: str) -> list[Process]:
    """The processes that have the mark, but for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables, words = (folder / "environ").read_text(), (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, UnicodeDecodeError):
            continue
        if mark in variables + words and folder.name != str(os.getpid()):
            node = re.search(r"\0SLURMD_NODENAME=(\w+)", variables)
            found.append(Process(int(folder.name), words, node and node[1]))
    return found


@pytest.fixture
def n2(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Arm]]:
    """``n2(*settings)``: an arm on that node, in a job that has all of them; afterwards nothing of it may be left."""
    begun = subprocess.run(
        ["salloc", "-w", "n[1-3]", "--no-shell"], capture_output=True, text=True, timeout=60, check=True
    )
    (job,) = re.findall(r"Granted job allocation (\d+)", begun.stderr)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield lambda *settings: parse_arm(f"slurm:n2,{','.join([*settings, f'env.{MARK}={mark}', 'name=there'])}")
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := of_test(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    subprocess.run(["scancel", job], timeout=60, check=True)
    assert [] == left


def test_a_container_there_is_one_of_the_nodes_files(n2: Callable[..., Arm]) -> None:
    if shutil.which("ch-run") is None:
        pytest.skip("needs Charliecloud: apt-get install charliecloud-runtime")
    worker = WorkerProcess(START, arm=n2(PYTHON, "runtime=charliecloud"))
    found = worker.ready.environment.confinement.runtime
    worker.end()
    assert found is not None
    assert ("charliecloud", True) == (found.name, found.in_container), found.evidence


@pytest.mark.parametrize("victim", ["srun ", f"{sys.executable} -P -m primbench.workers.worker"])
def test_what_is_killed_ends_its_arm_alone(victim: str, n2: Callable[..., Arm]) -> None:
    worker = WorkerProcess(START, arm=n2(PYTHON))
    assert worker.ready
    found = [psutil.Process(each.pid) for each in of_test(os.environ[MARK]) if each.words.startswith(victim)]
    (first,) = [each for each in found if each.parent() not in found]  # srun forks one more
    first.kill()
    with pytest.raises(WorkerGone, match=r"^worker was killed by SIGKILL"):
        worker.run(ENDLESS, 20.0)
    worker.end()


def test_nothing_is_left_when_the_front_is_killed_in_the_middle_of_a_case(n2: Callable[..., Arm]) -> None:
    asked = n2(PYTHON)
    words = ["--arm", "host", "--arm", f"slurm:n2,{PYTHON},env.{MARK}={asked.variables[MARK]}", "--device", "cpu"]
    long = ["--backend", "numpy", "--min-time", "300s", "--max-time", "300s"]
    with subprocess.Popen(
        [*PRIMBENCH, "study", "quick", "--primitive", "gemm", *words, *long],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as front:  # fmt: skip
        deadline = time.monotonic() + 60
        while not any(each.node == "n2" and "workers.worker" in each.words for each in of_test(asked.variables[MARK])):
            assert time.monotonic() < deadline, front.poll()
            time.sleep(0.1)
        front.kill()


def test_where_there_is_no_python_or_no_allocation_the_arm_says_so(
    n2: Callable[..., Arm], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BackendUnavailable, match=r"^arm there: .*there is no /nowhere/python3: name one by python="):
        WorkerProcess(START, arm=n2("python=/nowhere/python3")).ready  # noqa: B018
    with pytest.raises(BackendUnavailable, match=r"^arm there: .*srun starts images only by pyxis"):
        WorkerProcess(START, arm=n2("image=mine")).ready  # noqa: B018
    monkeypatch.setenv("SLURM_JOB_ID", "99999")
    with pytest.raises(BackendUnavailable, match=r"^arm there: .*the allocation has ended"):
        WorkerProcess(START, arm=n2()).ready  # noqa: B018
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(BackendUnavailable, match=r"^arm there: there is no allocation: begin by `salloc"):
        WorkerProcess(START, arm=n2()).ready  # noqa: B018
