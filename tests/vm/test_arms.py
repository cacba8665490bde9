"""Limits on the machine itself, by control groups v2 of two NUMA nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.slow

# One case in a host arm; then what is left of its control group, and where this process is.
LIMITED = """
import json, sys
from pathlib import Path
from primbench.arms import parse_arm
from primbench.measurement import Method
from primbench.record import Case, Worker
from primbench.session import Session

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
    "version": limits.cgroup_version,
    "left": [str(path) for path in top.rglob("primbench-*")],
    "as_before": before == {path: path.read_text() for path in top.rglob("cgroup.subtree_control")},
}))
"""


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ("host:cpus=0.5,cpuset=2-3,mems=1,memory=512MiB", [[2, 3], [1], 0.5, 512 * 2**20]),
        ("host:cpus=0.5", [[0, 1, 2, 3], [0, 1], 0.5, None]),
    ],
)
def test_a_host_arm_is_limited_by_a_group_of_its_own(
    on_two_nodes: Callable[..., CompletedProcess[str]], said: str, limits: list[object]
) -> None:
    done = on_two_nodes(sys.executable, "-P", "-c", LIMITED, said)
    assert 0 == done.returncode, done.stderr
    expected = {
        "status": ["ok", None],
        "limits": limits,
        "version": "v2",
        "left": [],
        "as_before": True,
    }
    assert expected == json.loads(done.stdout)
