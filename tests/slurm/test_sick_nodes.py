"""Six nodes under Slurm, of which one is under a quota, one has a slow disk, and one computes a wrong bit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.system.cgroups import cgroup_folders

from ..groups import MOST, ahead, move

if TYPE_CHECKING:
    from click.testing import Result

HELD, ON_SLOW_DISK, WRONG = "n2", "n4", "n5"
NODES = [f"n{number}" for number in range(1, 7)]
SUITE = """
product = [{ n = 64 }]
files = [{ bytes = 1_048_576, block_bytes = 4096, what = "read", page_cache = "cold", device = "cpu" }]
"""
# The last bit of one number is another one where Slurm calls the node so: too small an error for any tolerance.
KERNELS = f'''
"""A product, wrong on one node."""
import os
from dataclasses import dataclass

import numpy as np

from primbench.problem import Problem, Reference, kernel, size
from primbench.random import random_array


@dataclass(frozen=True)
class Product(Problem, name="product"):
    """y[n, n] = x[n, n] x[n, n]."""

    n: int = size("rows")
    on_gpus = False

    def bytes_moved(self):
        return 8 * self.n**2

    def inputs(self, rng):
        return (random_array(rng, (self.n, self.n), "float32"),)

    def reference(self, rng, x):
        exact = x.astype("float64")
        return Reference(index=..., expected=exact @ exact, scale=abs(exact) @ abs(exact))

    def tolerance(self):
        return 1e-5


@kernel("product", "numpy")
def product(backend, problem, x):
    y = backend.empty((problem.n, problem.n), "float32")
    wrong = np.uint32(os.environ["SLURMD_NODENAME"] == "{WRONG}")

    def step():
        np.matmul(x, x, out=y)
        y.view("uint32")[7, 9] ^= wrong
        return y

    return step
'''


@pytest.fixture
def slow_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a disk past its cache, a page at a time."""
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * 2**20)
    with ExitStack() as closing:
        try:
            ran("mkfs.ext4", "-q", "-F", image)
            device = ran("losetup", "--show", "--direct-io=on", "-f", image)
            closing.callback(ran, "losetup", "-d", device)
            ran("mount", device, folder)
            closing.callback(ran, "umount", folder)
            ran("blockdev", "--setra", "0", device)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"needs root's leave to mount a disk that is a file: {error}")
        yield folder


def ran(*words: object) -> str:
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def held(limited: Path, daemon: str) -> Iterator[None]:
    """A daemon, and what it starts, is in a control group."""
    (limited / "cgroup.procs").write_text(daemon)
    try:
        yield
    finally:
        deadline = time.monotonic() + 60  # for what clears up after a step, which may start more
        while (limited / "cgroup.procs").read_text() and time.monotonic() < deadline:
            move(limited, limited.parent)
            time.sleep(0.05)


@pytest.mark.quiet
def test_a_quota_a_slow_disk_and_a_wrong_bit_are_found_and_named(
    invoke: Callable[..., Result],
    slurm: Path,
    group: Callable[[str, dict[str, str]], Path],
    slow_disk: Path,
    tmp_path: Path,
) -> None:
    is_v1 = (cgroup_folders("cpu")[0] / "tasks").exists()
    quota, weight = {"cpu.cfs_quota_us": "20000"}, "cpu.shares"
    if not is_v1:
        quota, weight = {"cpu.max": "20000 100000"}, "cpu.weight"
    limited = group("cpu", quota | {weight: MOST[weight]})
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "wrong.py").write_text(KERNELS)
    prolog = tmp_path / "prolog"  # Slurm sets in a task what it prints so
    prolog.write_text(f'#!/bin/sh\n[ $SLURMD_NODENAME != {ON_SLOW_DISK} ] || echo "export TMPDIR={slow_disk}"\n')
    prolog.chmod(0o755)
    command = [
        "srun", f"-N{len(NODES)}", f"--task-prolog={prolog}", sys.executable, "-P", "-m", "primbench",
        "--kernels", tmp_path / "wrong.py", "run", tmp_path / "suite.toml", "--fleet", tmp_path / "fleet/host",
        "--backend", "numpy", "--device", "cpu", "--threads", "1", "--min-time", "1s", "--max-time", "1s",
        "--one-at-a-time",
    ]  # fmt: skip
    daemons = {node: (slurm / f"slurmd-{node}.pid").read_text() for node in NODES}
    with ExitStack() as closing:
        closing.enter_context(held(limited, daemons.pop(HELD)))
        for daemon in daemons.values():
            closing.enter_context(ahead(int(daemon)))
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
    assert 0 == done.returncode, done.stderr

    shown = invoke("fleet", tmp_path / "fleet/host").stdout
    found = json.loads(invoke("fleet", tmp_path / "fleet/host", "--json", "-").stdout)
    assert (NODES, [], 0) == (found["nodes"], found["missing"], found["unnamed"])
    sick = {each["node"]: each for each in found["unhealthy"]}
    assert {HELD, ON_SLOW_DISK, WRONG} <= sick.keys(), shown
    assert any("quota" in words for words in sick[HELD]["causes"]), shown
    assert any("ahead" in words for words in sick[ON_SLOW_DISK]["causes"]), shown
    assert sick[WRONG]["deviations"], shown
    wrong = {
        each["member"]: {one["why"] for one in each["reasons"]}
        for each in json.loads(invoke("certify", tmp_path / "fleet", "--read", "--json", "-").stdout)["members"]
    }
    assert ("slow" in wrong[HELD], "slow" in wrong[ON_SLOW_DISK], "output" in wrong[WRONG]) == (True, True, True)
