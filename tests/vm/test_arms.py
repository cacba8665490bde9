"""Limits on the machine itself, by control groups v2 of two NUMA nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# A case in a host arm; then what is left of its control group, and where this process is.
LIMITED = """
import json, sys
from pathlib import Path
from primbench.spec.arm import parse_arm
from primbench.spec.method import Method
from primbench.spec.case import Case
from primbench.workers.session import Session

top = Path("/sys/fs/cgroup")
before = {path: path.read_text() for path in top.rglob("cgroup.subtree_control")}
arm = parse_arm(sys.argv[1])
sizes = {"m": 16, "n": 16, "k": 16}
once = Method(dry_run=True)
case = Case(primitive="gemm", parameters=sizes, backend="numpy", device="cpu", method=once, arm=arm.name)
with Session(arms={arm.name: arm}) as session:
    worker, record = session.run([case])
limits = worker.environment.limits
print(json.dumps({
    "status": [record.status, record.reason],
    "limits": [limits.cpus_allowed, limits.memory_nodes_allowed, limits.cpu_quota, limits.memory_limit_bytes],
    "others": [limits.cpu_weight, limits.niceness, limits.processes_max, limits.open_files],
    "version": limits.cgroup_version,
    "left": [str(path) for path in top.rglob("primbench-*")],
    "as_before": before == {path: path.read_text() for path in top.rglob("cgroup.subtree_control")},
}))
"""


def test_a_host_arm_is_limited_by_a_group_of_its_own(on_two_nodes: Callable[..., CompletedProcess[str]]) -> None:
    everything = "host:cpus=1.5,cpuset=2-3,mems=1,memory=512MiB,cpu-weight=50,nice=5,pids=500,nofile=512"
    done = on_two_nodes(sys.executable, "-P", "-c", LIMITED, everything)
    assert 0 == done.returncode, done.stderr
    expected = {
        "status": ["ok", None],
        "limits": [[2, 3], [1], 1.5, 512 * 2**20],
        "others": [50, 5, 500, 512],
        "version": "v2",
        "left": [],
        "as_before": True,
    }
    assert expected == json.loads(done.stdout)
