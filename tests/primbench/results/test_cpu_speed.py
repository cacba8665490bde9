"""The loop that tells how fast the CPU is, and the samples beside which it was."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from primbench.measurement import Samples
from primbench.results.cpu_speed import speed, undisturbed
from primbench.timing.cpu_probe import EVERY_S, Loop


def test_a_loop_takes_time_and_is_timed_now_and_then() -> None:
    loop = Loop()
    first = loop()
    assert first is not None
    assert first > 0
    assert None is loop(), "right after the first"
    time.sleep(2 * EVERY_S)
    assert loop() is not None


# The loop, where all but the first hundred allocations fail.
WITHOUT_MEMORY = """
import _testcapi
from primbench.timing.cpu_probe import Loop
loop = Loop()
_testcapi.set_nomemory(100)
taken_s = loop()
_testcapi.remove_mem_hooks()
print(taken_s > 0)
"""


def test_a_loop_takes_the_same_time_however_python_allocates() -> None:
    pytest.importorskip("_testcapi", reason="this Python came without the modules of its own tests")
    command = [sys.executable, "-P", "-c", WITHOUT_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "True\n") == (done.returncode, done.stdout), done.stderr


def test_full_speed_is_what_the_quickest_loops_took() -> None:
    found = speed([1.0] * 10 + [2.0] * 90)
    assert found is not None
    assert pytest.approx(1.0) == found.full_s
    assert pytest.approx(0.9) == found.slowed_fraction
    assert None is speed([])


@pytest.mark.parametrize(
    ("loops_s", "kept"),
    [
        ([(0, 1.0)], [0, 1, 2, 3, 4, 5]),
        ([(0, 1.0), (2, 1.1), (4, 1.0)], [0, 1, 2, 3, 4, 5]),
        ([(0, 1.0), (2, 1.5), (4, 1.0)], [4, 5]),
        ([(0, 1.0), (2, 1.0), (4, 1.5)], [0, 1]),
        ([(0, 1.5), (2, 1.0), (4, 1.0)], [2, 3, 4, 5]),
        ([(0, 1.5)], []),
    ],
)
def test_samples_between_quick_loops_are_undisturbed(loops_s: list[tuple[int, float]], kept: list[float]) -> None:
    taken = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    samples = Samples(samples_s=taken, calls_per_sample=1, taken_by="host clock", stopped="count", loops_s=loops_s)
    assert kept == undisturbed(samples, 1.0)
