"""What primbench starts for workers in arms, and whether any of it is left when they have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ..groups import control_groups, is_deserted
from .programs import SYSTEM, program

MARK = "PRIMBENCH_TEST_MARK"
GONE_WITHIN_S = 60
ALONE = {"docker": ("network=none",), "podman": ("network=none",)}  # the test's daemon has no other


@pytest.fixture
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, work: Path) -> str:
    """One that primbench finds by itself: the fixtures of the same name say where."""
    name: str = request.param
    if name == "runc":
        program("runc", "apt-get install runc", SYSTEM)
        monkeypatch.setenv("PATH", SYSTEM)
    elif name != "host":
        for variable, value in request.getfixturevalue(name).environment.items():
            monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """What is there of this test's workers: processes, folders and mounts in them, containers, images, groups."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mark = uuid.uuid4().hex  # another lane of tests may have a folder of the same name
    monkeypatch.setenv(MARK, mark)

    def find() -> list[str]:
        running = [each.words for each in marked(mark)]
        return [*running, *map(str, tmp_path.iterdir()), *listed(), *groups()]

    yield find
    left = at_last(find)
    assert not left, left


def at_last(find: Callable[[], list[str]]) -> list[str]:
    """What is still there once it had time to go."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def in_words(runtime: str, *settings: str) -> str:
    """An arm in words, whose processes bear this test's mark."""
    return f"{runtime}:{','.join([*ALONE.get(runtime, ()), *settings, f'env.{MARK}={os.environ[MARK]}'])}"


class Process(NamedTuple):
    pid: int
    words: str
    variables: list[str]

    @property
    def is_worker(self) -> bool:
        """Not what starts one."""
        return self.words.startswith(f"{sys.executable} -P -m primbench.workers.worker")

    @property
    def is_inside(self) -> bool:
        try:
            return os.readlink("/proc/self/ns/mnt") != os.readlink(f"/proc/{self.pid}/ns/mnt")
        except OSError:
            return False  # it has ended


def marked(mark: str) -> list[Process]:
    """The processes in whose environment this test has put its mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = path.joinpath("environ").read_bytes().decode(errors="replace").split("\0")
            words = path.joinpath("cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it has ended
        if f"{MARK}={mark}" in variables and words:
            found.append(Process(int(path.name), words, variables))
    return found


def worker_inside() -> Process:
    """That of the arm: where it is a container, one of the host may take turns with it."""
    workers = [process for process in marked(os.environ[MARK]) if process.is_worker]
    (found,) = [process for process in workers if process.is_inside] or workers
    return found


def listed() -> list[str]:
    """By the engines that this test can reach, if it can."""
    found = []
    for variable, client in (("DOCKER_HOST", "docker"), ("CONTAINERS_STORAGE_CONF", "podman")):
        if variable in os.environ:
            for what in (["ps", "--all", "--format={{.Names}}"], ["images", "--format={{.Repository}}"]):
                done = subprocess.run([client, *what], capture_output=True, text=True, check=True, timeout=60)
                found += [f"{client}: {line}" for line in done.stdout.split() if line.startswith("primbench-")]
    return [line for line in found if not line.endswith("primbench-tests")]


def groups() -> list[str]:
    """Those without processes: others are in use, or their processes are told of by themselves."""
    found = [each for each in control_groups("primbench-*") if not each.name.startswith("primbench-test")]
    return [str(each) for each in found if is_deserted(each)]
