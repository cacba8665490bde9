"""Counting calls in turn, for no more than a share of the time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from primbench.watching.calls import MOST_SHARE, Calls, Counters
from primbench.watching.moment import read


def test_a_count_that_takes_longer_puts_off_the_next_one(launching: str) -> None:
    """However long this process has to wait for a CPU with a breakpoint in place."""
    counters = Counters(Path("/"))
    found: list[Calls] = []
    with subprocess.Popen([sys.executable, "-P", "-c", launching], stdout=subprocess.PIPE) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            counters.find(read(Path("/"), [job.pid]))
            begun_s = time.monotonic()
            while (lasted_s := time.monotonic() - begun_s) < 1.0 or (lasted_s < 30.0 and not _has_run(found)):
                found += counters.next()
                if counters.why_not is not None:
                    pytest.skip(f"needs root's leave for uprobes: {counters.why_not}")
        finally:
            job.kill()
    assert found
    assert sum(each.counted_s for each in found[:-1]) <= MOST_SHARE * lasted_s
    assert [each.function for each in found[:2]] == ["cuLaunchKernel", "cuGraphLaunch"][: len(found)]
    assert _has_run(found)
    assert {0} >= {each.count for each in found if each.function == "cuGraphLaunch"}


def _has_run(found: Sequence[Calls]) -> bool:
    """Whether the job, which others may keep from the CPU for all of a count, was seen to launch."""
    return any(each.count > 0 for each in found)
