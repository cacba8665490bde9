from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from primbench.runtimes.inherited import of_process
from primbench.spec.arm import Arm

READ = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), open('/proc/self/autogroup').read().split()[-1])"


def test_a_session_is_as_nice_as_its_process() -> None:
    """Else a nice process of a session of its own has as much of a CPU as any other."""
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("the kernel has no /proc/self/autogroup: CONFIG_SCHED_AUTOGROUP")
    ((words, nice),) = of_process(Arm(name="nice", runtime="host", niceness=7))
    assert "nice=7" == words
    done = subprocess.run(
        [sys.executable, "-c", READ],
        start_new_session=True,
        preexec_fn=nice,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "7 7\n" == done.stdout
