"""The loop that tells how fast the CPU is, and the samples beside which it was."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from primbench.measurement import Samples
from primbench.results.cpu_speed import held_up, not_held_up, speed, undisturbed
from primbench.timing import cpu_probe
from primbench.timing.cpu_probe import EVERY_S, Loop, Queue


def test_a_loop_takes_time_and_is_timed_now_and_then() -> None:
    loop = Loop()
    first = loop()
    assert first is not None
    assert first > 0
    assert None is loop(3600.0), "not yet an hour after the first"
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


def test_a_line_with_waits_of_other_loops_is_refused() -> None:
    samples = Samples(samples_s=[1.0], calls_per_sample=1, taken_by="host clock", stopped="count", loops_s=[(0, 1e-5)])
    written = msgspec.to_builtins(samples)
    assert samples == msgspec.convert(written, Samples)
    for queued_s in ([0.0, 0.0], [0.0] * 3):
        with pytest.raises(msgspec.ValidationError, match="queued_s for 1 loops_s"):
            msgspec.convert(written | {"queued_s": queued_s}, Samples)


@pytest.fixture
def one_cpu() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def work(times: int = 1) -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", times * 200_000)  # without Python's lock


@pytest.mark.usefixtures("one_cpu")
def test_it_is_counted_how_long_another_thread_waits_for_a_cpu_unless_paused() -> None:
    def counted() -> float:
        other = threading.Thread(target=work, args=(2,))
        other.start()
        queue = Queue()
        queue.watch()
        try:
            work()
            found = queue.lap_s()
            queue.pause()
            work()
            queue.resume()
            paused_s = queue.lap_s()
        finally:
            other.join()
            queue.close()
        if found is None or paused_s is None:
            pytest.skip("this kernel does not count how long threads wait")
        assert paused_s < found
        return found

    assert counted() > 0


def test_threads_that_are_asleep_are_not_looked_at_again() -> None:
    is_over = threading.Event()
    sleepers = [threading.Thread(target=is_over.wait, daemon=True) for _ in range(3)]
    for each in sleepers:
        each.start()
    while not all(is_asleep(each) for each in sleepers):
        time.sleep(0.01)
    before = open_files()
    queue = Queue()
    queue.watch()
    if queue.lap_s() is None:
        pytest.skip("this kernel does not count how long threads wait")
    assert 1 <= open_files() - before <= threading.active_count() - len(sleepers)
    is_over.set()
    queue.close()
    assert queue.lap_s() is None
    assert before == open_files()


def is_asleep(thread: threading.Thread) -> bool:
    stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    return stat.rpartition(") ")[2].startswith("S")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("counted", "lap_s"), [("0 0 0", None), ("5 7 1", 0.0)])
def test_a_kernel_that_counts_nothing_writes_zeros_and_no_file_of_an_ended_thread_stays_open(
    counted: str, lap_s: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / str(threading.get_native_id())
    own.mkdir()
    (own / "schedstat").write_text(counted)
    (tmp_path / "1/schedstat").mkdir(parents=True)  # which can be opened, and not be read
    monkeypatch.setattr(cpu_probe, "TASKS", str(tmp_path))
    before = open_files()
    queue = Queue()
    queue.watch()
    assert lap_s == queue.lap_s()
    queue.close()
    assert before == open_files()


@pytest.mark.parametrize(
    ("begins", "queued_s", "kept"),
    [
        ([0], [], None),
        ([0], [0.0], [0, 1, 2, 3]),
        ([0, 2], [0.0, 0.1], [0, 1]),
        ([0, 2], [0.021, 0.1], [0, 1]),  # of 2 samples of 2 calls of 0.5 s
        ([0, 2], [0.05, 0.0], [2, 3]),
        ([1, 2], [0.0, 0.1], [1]),
    ],
)
def test_samples_while_which_a_thread_waited_are_held_up(
    begins: list[int], queued_s: list[float], kept: list[int] | None
) -> None:
    samples = Samples(
        samples_s=[0.50, 0.51, 0.52, 0.53], calls_per_sample=2, taken_by="host clock", stopped="count",
        loops_s=[(begin, 25e-6) for begin in begins], queued_s=queued_s,
    )  # fmt: skip
    assert (kept is None) == (held_up(samples) == [])
    counted = [each for each in not_held_up(samples) if not math.isnan(each)]
    assert [samples.samples_s[index] for index in kept or []] == counted
