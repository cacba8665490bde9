"""Control groups v2: a container of runc that has one of its own, and one that stays in those of the host."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.slow

# Of the worker in each arm, its control group as seen from outside, and what it sees itself; then what is left.
STARTED = """
import json, os, sys
from pathlib import Path
os.environ["PATH"] += ":/usr/sbin"
from primbench.arms import parse_arm
from primbench.protocol import Start
from primbench.workerprocess import WorkerProcess

def group_of_the_worker():
    (process,) = [
        path for path in Path("/proc").glob("[0-9]*")
        if (path / "cmdline").read_bytes().split(b"\\0")[1:4] == [b"-P", b"-m", b"primbench.worker"]
    ]
    return (process / "cgroup").read_text()

found = []
for said in sys.argv[1:]:
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm(said))
    limits = worker.ready.environment.limits
    is_ours = group_of_the_worker() == Path("/proc/self/cgroup").read_text()
    found.append([is_ours, limits.cpu_quota, limits.cpus_allowed])
    worker.end()
print(json.dumps([found, [str(path) for path in Path("/sys/fs/cgroup").rglob("primbench-*")]]))
"""


def test_a_control_group_is_kept_or_left(on_two_nodes: Callable[..., CompletedProcess[str]]) -> None:
    if shutil.which("runc", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("runc is not installed: apt-get install runc")
    arms = ("runc:cpus=1.5,cpuset=2-3", "runc:cgroup=host,cap-add=ALL,ipc=host,network=host")
    done = on_two_nodes(sys.executable, "-P", "-c", STARTED, *arms)
    assert 0 == done.returncode, done.stderr
    assert [[[False, 1.5, [2, 3]], [True, None, [0, 1, 2, 3]]], []] == json.loads(done.stdout)
