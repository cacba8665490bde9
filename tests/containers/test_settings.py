"""What a container's process is given before it becomes the worker, in every runtime that can."""

from __future__ import annotations

import ctypes  # noqa: F401 - maps libffi
import os
import shutil
import tempfile
import zlib  # noqa: F401
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from primbench.errors import InvalidRequest
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm
from primbench.spec.settings import FIELDS
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Ready, Start

from .traces import in_words

CPU = min(os.sched_getaffinity(0))
GIB = 2**30
HELD = {
    "rlimit-core": ("0B", "limits.core_bytes", 0),
    "rlimit-cpu": ("3000", "limits.cpu_time_limit_s", 3000),
    "rlimit-fsize": ("1GiB", "limits.file_size_bytes", GIB),
    "rlimit-msgqueue": ("1000B", "limits.message_queue_bytes", 1000),
    "rlimit-sigpending": ("700", "limits.signals_pending_max", 700),
    "rlimit-stack": ("4MiB", "limits.stack_bytes", 4 * 2**20),
    "rlimit-data": ("30GiB", "limits.data_bytes", 30 * GIB),
    "rlimit-as": ("60GiB", "limits.address_space_bytes", 60 * GIB),
    "umask": ("077", "confinement.umask", "0077"),
    "policy": ("batch", "limits.scheduling", "batch"),
    "affinity": (str(CPU), "limits.cpus_allowed", [CPU]),
    "timer-slack": ("1ms", "limits.timer_slack_ns", 1_000_000),
    "thp": ("no", "confinement.transparent_hugepage_disabled", True),
    "mdwe": ("yes", "confinement.executable_pages", "EACCES"),
}


def ready(words: str) -> Ready:
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm(words))
    try:
        return worker.ready
    finally:
        worker.end()


def fact(found: Ready, path: str) -> Any:
    return reduce(getattr, path.split("."), found.environment)


@pytest.mark.parametrize("runtime", ["docker", "podman", "runc", "charliecloud", "apptainer"], indirect=True)
def test_a_container_has_all_that_its_runtime_can_set(runtime: str, traces: Callable[[], list[str]]) -> None:
    able = [key for key in HELD if FIELDS[key].field in known()[runtime].settings]
    assert {"rlimit-data", "rlimit-stack"} <= {*able}
    found = ready(in_words(runtime, *(f"{key}={HELD[key][0]}" for key in able), "name=held"))
    assert {key: HELD[key][2] for key in able} == {key: fact(found, HELD[key][1]) for key in able}


@pytest.fixture
def in_memory() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


MOUNTING = ["docker", "podman", "runc", "apptainer", "host"]  # Charliecloud shows what TMPDIR names at /tmp


@pytest.mark.parametrize("runtime", MOUNTING, indirect=True)
def test_a_folder_is_seen_elsewhere(runtime: str, in_memory: Path, traces: Callable[[], list[str]]) -> None:
    found = ready(in_words(runtime, f"mount={in_memory}:/srv", "env.TMPDIR=/srv", "name=held")).environment.confinement
    assert "tmpfs on /srv" == (found.filesystems or {})["temporary files"]
    assert not [*in_memory.iterdir()]


def test_what_is_mounted_over_the_launchs_own_folder_is_refused(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(InvalidRequest, match="by which workers are started: set TMPDIR to another folder"):
        ready(f"host:mount={in_memory}:{tmp_path}")
    assert not [*in_memory.iterdir()]


@pytest.mark.parametrize("runtime", ["podman", "runc"], indirect=True)
def test_entries_and_variables_go_in_containers(
    runtime: str, traces: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/lib:/opt")
    monkeypatch.setenv("OMP_SCHEDULE", "static")
    words = ("first.LD_LIBRARY_PATH=/usr/local/lib", "without.LD_LIBRARY_PATH=/opt", "unset=OMP_SCHEDULE")
    held = ready(in_words(runtime, *words, "name=held")).environment.software.variables
    assert held is not None
    assert ("/usr/local/lib:/usr/lib", False) == (held["LD_LIBRARY_PATH"], "OMP_SCHEDULE" in held)


@pytest.mark.parametrize("runtime", ["docker", "podman", "runc", "charliecloud", "apptainer"], indirect=True)
def test_libraries_of_another_place_go_in_containers(
    runtime: str, traces: Callable[[], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One that is found before others, and one that is seen in the place of another: the same, and longer."""
    folder, mapped = tmp_path_factory.mktemp("other"), Path("/proc/self/maps").read_text().split()
    found = {name: {each for each in mapped if f"/{name}." in each} for name in ("libz", "libffi")}
    if not all(found.values()):
        pytest.skip("this Python brings its own zlib or libffi")
    for name, (path,) in found.items():
        (folder / name).write_bytes(Path(path).read_bytes() + b"longer")
    words = f"libraries=libz.so.1@{folder}/libz+{min(found['libffi'])}@{folder}/libffi"
    libraries = ready(in_words(runtime, words, "name=other")).environment.software.libraries
    assert libraries is not None
    for name in found:
        assert [(folder / name).stat().st_size] == [each.size_bytes for each in libraries[name]], name
