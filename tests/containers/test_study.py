"""Studies of this machine against real containers, on its own files and in images of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from primbench.experiments.study import plan
from primbench.results import file as results_file
from primbench.results.metrics import METRICS
from primbench.results.record import Worker
from primbench.spec.case import Case
from primbench.spec.study import Study

from .built import Built
from .traces import Process, at_last, in_words, worker_inside

SUITE = """
gemm = [{ m = 16, n = 16, k = 16 }]
launch = [{ call = ["getppid", "dispatch"] }]
memcpy = [{ bytes = 65536, direction = "h2h" }]
allreduce = [{ bytes = 1024, ranks = 2 }]
"""
FEW = """
gemm = [{ m = [32, 48, 64], n = 64, k = 64 }]
launch = [{ call = ["getppid", "dispatch", "ctypes"] }]
"""
CASES_OF_FEW = 6
BORNE_OUT = "/proc/self/ns/mnt: not that of the launcher (PRIMBENCH_HOST_NAMESPACES); PRIMBENCH_RUNTIME={}"
COLUMNS = 5
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "10ms", "--fail-on", "never")
UNDER_WAY_WITHIN_S = 60


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-P", "-m", "primbench", "study", *map(str, arguments)]


def study(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd="/", capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test's own files are: in its tmp_path is only what primbench left."""
    return tmp_path_factory.mktemp("study")


def planned(study: Study) -> list[Case]:
    """Case by case, in which processes take turns."""
    blocks = [block.by_arm for block in plan(study.arms, study.cases, range(1), 1)]
    return [case for by_arm in blocks for cases in zip(*by_arm, strict=True) for case in cases]


@pytest.mark.slow
def test_every_primitive_runs_here_and_inside_on_the_hosts_files_and_in_an_image(
    found_by_runtime: Built, folder: Path, traces: Callable[[], list[str]]
) -> None:
    """In the image as the builder says that an arm names it."""
    name, (*_, image) = found_by_runtime.runtime, shlex.split(found_by_runtime.study)
    arms = ["host", in_words(name, "name=files"), in_words(name, image.removeprefix(f"{name}:"), "name=image")]
    path, compared = folder / "results.jsonl", folder / "compared.json"
    asked = [word for arm in arms for word in ("--arm", arm)]
    (folder / "suite.toml").write_text(SUITE)
    done = study(folder / "suite.toml", *asked, "--pairs", 1, "--seed", 1, *QUICK, "-o", path, "--json", compared)
    assert (0, "") == (done.returncode, done.stderr)
    found = results_file.read(path)
    assert found.header.study is not None
    assert planned(found.header.study) == [each.case for each in found.records]
    in_turn = {each.case.primitive for each in found.records if each.measurement and each.measurement.turns}
    assert {"gemm", "launch", "memcpy", "allreduce"} == in_turn
    workers = {worker.worker: worker for worker in found.workers}
    for each in found.records:
        assert ("ok", None) == (each.status, each.reason), each.case
        assert each.measurement is not None
        assert (None if each.case.parameters.get("call") == "getppid" else True) == each.measurement.verified
        worker = workers[each.worker] if each.worker is not None else None
        assert worker is not None
        assert worker.arm is not None
        assert each.case.arm == worker.arm.name
        runtime = worker.environment.confinement.runtime
        assert runtime is not None
        is_here = each.case.arm == "host"
        assert (("host", False) if is_here else (name, True)) == (runtime.name, runtime.in_container), runtime.evidence
        assert is_here or BORNE_OUT.format(name) == "; ".join(runtime.evidence[:2])
    assert ("container effect", []) == what_a_difference_is_called(compared, "files")
    assert ("container effect", []) == what_a_difference_is_called(compared, "image")
    assert packages(workers, "image") <= packages(workers, "host"), "it lacks what this work does without"


def packages(workers: Mapping[int, Worker], arm: str) -> set[str]:
    (first, *_) = [worker for worker in workers.values() if worker.arm and worker.arm.name == arm]
    return {*(first.environment.software.packages or {})}


def what_a_difference_is_called(compared: Path, name: str) -> tuple[str, list[str]]:
    """And what of the stacks is not the same in the host and the arm of that name."""
    (arm,) = [each for each in json.loads(compared.read_text())["arms"] if each["name"] == name]
    changes = arm["differences"]["numpy cpu"]["stack"]["changes"]
    return arm["effect"], sorted(each["field"] for each in changes if each["kind"] == "differs")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "few.toml"
    path.write_text(FEW)
    return path


@pytest.fixture(scope="module")
def uninterrupted(few: Path) -> list[tuple[str, ...]]:
    """The layout of such a study: which places are compared does not change it."""
    done = study(few, "--arm", "host", "--arm", "host:name=there", "--pairs", 1, *QUICK)
    assert (0, "") == (done.returncode, done.stderr)
    return layout(done.stdout)


def killed_in_the_middle(
    runtime: str, few: Path, path: Path, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """A study of which nothing is left but its results file at the path; the words of its arms."""
    monkeypatch.setenv("OF_THE_MACHINE", "yes")
    arms = ["--arm", "host", "--arm", in_words(runtime, "name=there")]
    asked = [few, *arms, "--pairs", 1, *QUICK, "--min-time", "100ms", "--max-time", "100ms"]  # to be found meanwhile
    with subprocess.Popen(command(*asked, "--quiet", "-o", path), cwd="/", start_new_session=True) as front:
        worker = held_in_the_middle(front, path)
        assert "OF_THE_MACHINE=yes" not in worker.variables
        front.kill()
    left = at_last(traces)
    assert not left, left
    return arms


@pytest.mark.parametrize("runtime", ["docker", "podman", "apptainer", "runc"], indirect=True)
def test_a_study_that_is_killed_while_a_container_measures_leaves_nothing(
    runtime: str, folder: Path, few: Path, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_in_the_middle(runtime, few, folder / "results.jsonl", traces, monkeypatch)


@pytest.mark.parametrize("runtime", ["charliecloud"], indirect=True)
def test_a_study_that_is_killed_while_a_container_measures_leaves_nothing_and_goes_on(
    runtime: str,
    folder: Path,
    few: Path,
    uninterrupted: list[tuple[str, ...]],
    traces: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder / "results.jsonl"
    arms = killed_in_the_middle(runtime, few, path, traces, monkeypatch)
    resumed = study("--resume", path, *arms, "--fail-on", "never")  # they set a variable: a file's word is not enough
    assert (0, "") == (resumed.returncode, resumed.stderr)
    assert sorted(uninterrupted) == sorted(layout(resumed.stdout)), "rows stand as cases were first run"
    cases = [each.case.process for each in results_file.read(path).records if each.case.arm == "there"]
    assert 0 < cases.count(0) < CASES_OF_FEW
    assert (CASES_OF_FEW, 0) == (cases.count(1), cases.count(2))


def held_in_the_middle(front: subprocess.Popen[bytes], path: Path) -> Process:
    """The worker in the container, stopped in a case that follows its first, so that it does not end by itself."""
    deadline = time.monotonic() + UNDER_WAY_WITHIN_S
    while not (path.exists() and b'"arm":"there"' in path.read_bytes()):
        assert front.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    worker = worker_inside()
    os.kill(worker.pid, signal.SIGSTOP)
    return worker


def layout(printed: str) -> list[tuple[str, ...]]:
    """Of the tables: what is set against what, the columns and the cases; neither numbers nor what is told below.

    Which metric decided is a matter of numbers, and others have a row only where they are slower or faster: one more
    where what else runs on this machine held a place up.
    """
    metrics = {metric.heading for metric in METRICS.values()}
    found: list[tuple[str, ...]] = []
    for line in printed.splitlines():
        cells = re.split(r"  +", line.strip())
        if " against " in line:
            found.append((cells[0], cells[1]))
        elif len(cells) == COLUMNS and cells[0] not in metrics:
            found.append(tuple(cells) if cells[0] == "case" else (cells[0],))
    return found


def test_a_runtime_that_is_not_there_is_one_line_and_the_others_go_on(
    charliecloud: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that does not answer makes Docker absent, and no client does."""
    for name, value in charliecloud.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nosuch")
    path = tmp_path / "results.jsonl"
    arms = ("--arm", "host", "--arm", "docker", "--arm", "charliecloud")
    done = study("containers", *arms, "--primitive", "launch", "--pairs", 1, *QUICK, "-o", path)
    assert 0 == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("docker runs nothing with numpy on cpu: ")
    found = results_file.read(path)
    statuses = {(each.case.arm, each.status) for each in found.records}
    assert {("host", "ok"), ("charliecloud", "ok"), ("docker", "skipped")} == statuses
