"""Limits on the machine itself, by control groups v2 of two NUMA nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# A case in each host arm; then what is left of their control groups, and where this process is.
LIMITED = """
import json, sys
from pathlib import Path
from msgspec.structs import replace
from primbench.spec.arm import parse_arm
from primbench.spec.method import Method
from primbench.results.record import Worker
from primbench.spec.case import Case
from primbench.workers.session import Session

top = Path("/sys/fs/cgroup")
before = {path: path.read_text() for path in top.rglob("cgroup.subtree_control")}
arms = [parse_arm(said) for said in sys.argv[1:]]
sizes = {"m": 16, "n": 16, "k": 16}
once = Method(dry_run=True)
case = Case(primitive="gemm", parameters=sizes, backend="numpy", device="cpu", method=once)
with Session(arms={arm.name: arm for arm in arms}) as session:
    lines = list(session.run([replace(case, arm=arm.name) for arm in arms]))
found = [worker.environment.limits for worker in lines[::2]]
print(json.dumps({
    "status": [[record.status, record.reason] for record in lines[1::2]],
    "limits": [
        [limits.cpus_allowed, limits.memory_nodes_allowed, limits.cpu_quota, limits.memory_limit_bytes]
        for limits in found
    ],
    "others": [
        [limits.cpu_weight, limits.niceness, limits.processes_max, limits.open_files] for limits in found[:1]
    ],
    "version": [limits.cgroup_version for limits in found],
    "left": [str(path) for path in top.rglob("primbench-*")],
    "as_before": before == {path: path.read_text() for path in top.rglob("cgroup.subtree_control")},
}))
"""


def test_a_host_arm_is_limited_by_a_group_of_its_own(on_two_nodes: Callable[..., CompletedProcess[str]]) -> None:
    everything, quota_alone = "host:cpus=1.5,cpuset=2-3,mems=1,memory=512MiB", "host:cpus=1.5"
    everything += ",cpu-weight=50,nice=5,pids=500,nofile=512"
    done = on_two_nodes(sys.executable, "-P", "-c", LIMITED, everything, quota_alone)
    assert 0 == done.returncode, done.stderr
    expected = {
        "status": [["ok", None]] * 2,
        "limits": [[[2, 3], [1], 1.5, 512 * 2**20], [[0, 1, 2, 3], [0, 1, 2], 1.5, None]],
        "others": [[50, 5, 500, 512]],
        "version": ["v2"] * 2,
        "left": [],
        "as_before": True,
    }
    assert expected == json.loads(done.stdout)
