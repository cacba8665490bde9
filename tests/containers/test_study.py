"""Studies of this machine against real containers on its own files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from primbench import record
from primbench.study import plan

CONTAINERS = ["docker", "podman", "apptainer", "charliecloud"]
ALONE = {"docker": ":network=none", "podman": ":network=none"}  # the test's daemon has no other
SUITE = """
gemm = [{ m = 16, n = 16, k = 16 }]
launch = [{ call = ["getppid", "dispatch"] }]
memcpy = [{ bytes = 65536, direction = "h2h" }]
allreduce = [{ bytes = 1024, ranks = 2 }]
"""
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "10ms", "--fail-on", "never")


def study(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "primbench", "study", *map(str, arguments)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(SUITE)
    return path


@pytest.mark.parametrize("engine", CONTAINERS, indirect=True)
def test_every_primitive_runs_here_and_there_in_turn(found_by_name: Any, suite: Path, tmp_path: Path) -> None:
    path, arm = tmp_path / "results.jsonl", f"{found_by_name.name}{ALONE.get(found_by_name.name, '')}"
    done = study(suite, "--arm", "host", "--arm", arm, "--pairs", 2, "--seed", 1, *QUICK, "-o", path)
    assert (0, "") == (done.returncode, done.stderr)
    assert f"{arm} against host" in done.stdout
    found = record.read(path)
    asked = found.header.study
    assert asked is not None
    assert plan(asked.arms, asked.cases, range(2), 1) == [each.case for each in found.records]
    workers = {worker.worker: worker for worker in found.workers}
    for each in found.records:
        assert "ok" == each.status, (each.case, each.reason)
        assert each.measurement is not None
        assert each.measurement.verified is not False
        worker = workers[each.worker] if each.worker is not None else None
        assert worker is not None
        assert worker.arm is not None
        assert each.case.arm == worker.arm.name
        runtime = worker.environment.confinement.runtime
        assert runtime is not None
        assert (each.case.arm.partition(":")[0], each.case.arm != "host") == (runtime.name, runtime.in_container)


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
    found = record.read(path)
    statuses = {(each.case.arm, each.status) for each in found.records}
    assert {("host", "ok"), ("charliecloud", "ok"), ("docker", "skipped")} == statuses
