"""Counting calls in turn, for no more than a share of the time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from primbench.watching.calls import MOST_SHARE, Counters
from primbench.watching.moment import read


def test_a_count_that_takes_longer_puts_off_the_next_one(launching: str) -> None:
    """However long this process has to wait for a CPU with a breakpoint in place."""
    counters, found = Counters(Path("/")), []
    with subprocess.Popen([sys.executable, "-P", "-c", launching], stdout=subprocess.PIPE) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            counters.find(read(Path("/"), [job.pid]))
            begun_s = time.monotonic()
            while time.monotonic() - begun_s < 1.0:
                found += counters.next()
                if counters.why_not is not None:
                    pytest.skip(f"needs root's leave for uprobes: {counters.why_not}")
            lasted_s = time.monotonic() - begun_s
        finally:
            job.kill()
    assert found
    assert sum(each.counted_s for each in found[:-1]) <= MOST_SHARE * lasted_s
    assert [each.function for each in found[:2]] == ["cuLaunchKernel", "cuGraphLaunch"][: len(found)]
    assert found[0].count > 0
    assert {0} >= {each.count for each in found if each.function == "cuGraphLaunch"}
