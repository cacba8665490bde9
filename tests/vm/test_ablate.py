"""The hook by which a container stays in the control groups of the host, where these are of version 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# runc itself is left to the tests of containers: a container takes half a minute on a machine that is emulated.
LEFT = """
import json, subprocess, sys
from pathlib import Path

made = Path("/sys/fs/cgroup/primbench-made")
made.mkdir()
with subprocess.Popen(["sleep", "600"]) as process:
    (made / "cgroup.procs").write_text(str(process.pid))
    group = Path(f"/proc/{process.pid}/cgroup")
    found = [group.read_text()]
    hook = [sys.executable, "-P", "-m", "primbench.runtimes.oci_hook"]
    state = json.dumps({"ociVersion": "1.0.2", "id": "x", "status": "creating", "pid": process.pid, "bundle": "/"})
    done = subprocess.run(hook, input=state, text=True, capture_output=True)
    found.append(group.read_text() == Path("/proc/self/cgroup").read_text())
    process.kill()
made.rmdir()
print(json.dumps([*found, done.returncode, done.stderr]))
"""


def test_a_control_group_that_was_made_for_a_process_is_left(
    on_two_nodes: Callable[..., CompletedProcess[str]],
) -> None:
    done = on_two_nodes(sys.executable, "-P", "-c", LEFT)
    assert 0 == done.returncode, done.stderr
    assert ["0::/primbench-made\n", True, 0, ""] == json.loads(done.stdout)
