"""Control groups by which verdicts of tests are the same beside other work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from primbench.system.cgroups import cgroup_folders

MOST = {"cpu.shares": "262144", "cpu.weight": "10000"}  # control groups v1, v2
OF_ENGINES = ("docker", "libpod_parent")  # in which Docker and Podman put their containers


@pytest.fixture
def ahead_of_others() -> Iterator[None]:
    """This process, what it starts and the containers of engines have the CPUs first, as far as root may have it so.

    What is asserted of their times is then so beside other work, too.
    """
    with ExitStack() as closing, suppress(OSError, ValueError):
        top = cgroup_folders("cpu")[-1]
        for name in OF_ENGINES:
            closing.enter_context(weighty(top / name))
        closing = closing.pop_all()
    with closing, ahead(os.getpid()):
        yield


@contextmanager
def ahead(process: int) -> Iterator[None]:
    """A process, and what it starts from then on, has the CPUs first, as far as root may have it so."""
    with ExitStack() as closing, suppress(OSError, ValueError):
        own, *above = cgroup_folders("cpu")
        first = closing.enter_context(weighty((above[-1] if above else own) / f"primbench-test-{process}-ahead"))
        closing.callback(move, first, own)  # with a daemon that was started meanwhile
        (first / "cgroup.procs").write_text(str(process))
        closing = closing.pop_all()
    with closing:
        yield


@contextmanager
def weighty(folder: Path) -> Iterator[Path]:
    """A control group of the greatest weight, be it there already."""
    folder.mkdir(exist_ok=True)
    before = {path: path.read_text() for name in MOST if (path := folder / name).exists()}
    for path in before:
        path.write_text(MOST[path.name])
    yield folder
    for path, text in before.items():
        path.write_text(text)
    with suppress(OSError):  # of an engine that has containers
        folder.rmdir()


def control_groups(*patterns: str) -> list[Path]:
    """Those of these names. Others may come and go meanwhile, of which os.walk() says nothing."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if any(fnmatch(name, pattern) for pattern in patterns)
    ]


def is_deserted(group: Path) -> bool:
    try:
        return not (group / "cgroup.procs").read_text()
    except OSError:
        return False  # it has been removed


def move(group: Path, to: Path) -> None:
    for process in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (to / "cgroup.procs").write_text(process)
