"""Counting calls in turn, for no more than a share of the time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.doctor.job import FunctionCalls, a_second
from primbench.watching import calls
from primbench.watching.calls import MOST_SHARE, Counters
from primbench.watching.moment import ProcessAt, ThreadAt, read


def test_a_count_that_takes_longer_puts_off_the_next_one(launching: str) -> None:
    """However long this process has to wait for a CPU with a breakpoint in place."""
    counters = Counters(Path("/"))
    found: list[FunctionCalls] = []
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
    assert _has_run(found)
    assert {0} >= {each.count for each in found if each.function != "cuLaunchKernel"}


def test_functions_of_per_thread_default_streams_are_counted_too(launching: str) -> None:
    counters, found = Counters(Path("/")), list[FunctionCalls]()
    per_thread = launching.replace(".cuLaunchKernel()", ".cuLaunchKernel_ptsz()")
    with subprocess.Popen([sys.executable, "-P", "-c", per_thread], stdout=subprocess.PIPE) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            counters.find(read(Path("/"), [job.pid]))
            end_s = time.monotonic() + 60.0
            while time.monotonic() < end_s and not _has_run(found):
                found += counters.next()
                if counters.why_not is not None:
                    pytest.skip(f"needs root's leave for uprobes: {counters.why_not}")
        finally:
            job.kill()
    assert {"cuLaunchKernel_ptsz"} == {each.function for each in found if each.count}


def test_where_uprobes_count_wrongly_calls_are_unknown_and_not_none(
    launching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ValueError("uprobes count wrongly here")

    monkeypatch.setattr(calls, "check_counting", refuse)
    counters = Counters(Path("/"))
    with subprocess.Popen([sys.executable, "-P", "-c", launching], stdout=subprocess.PIPE) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            counters.find(read(Path("/"), [job.pid]))
            assert [] == counters.next()
        finally:
            job.kill()
    assert "uprobes count wrongly here" == counters.why_not


def test_threads_that_launch_come_before_those_that_were_forked_to_load_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy these are; who has not run meanwhile has launched nothing."""
    counted: list[tuple[int, str]] = []

    def count(point: Any) -> FunctionCalls:
        counted.append((point.thread, point.function))
        return FunctionCalls(
            function=point.function,
            thread=point.thread,
            count=counted[-1] == (8, "cuLaunchKernel"),
            counted_s=0.0,
            ran_s=0.002,
        )

    monkeypatch.setattr(calls, "_count", count)
    found = {name: (Path("libcuda.so"), number) for number, name in enumerate(("cuGraphLaunch", "cuLaunchKernel"))}
    monkeypatch.setattr(calls, "_entry_points", lambda root, pid: found)
    counters = Counters(Path("/"))
    for ran_s in (0.0, 1.0):
        threads = {7: {"7": 0.2 * ran_s, "8": 0.3 * ran_s, "9": 0.0}, 20: {"20": ran_s}, 30: {"30": 0.9 * ran_s}}
        processes = {
            pid: _process(1 if pid == 7 else 7, "sh" if pid == 30 else "train", of) for pid, of in threads.items()
        }
        counters.find(replace(HERE, processes=processes))
    for _ in range(14):
        counters.next()
    kernels, graphs = ([(thread, name) for thread in (30, 8, 7, 20)] for name in ("cuLaunchKernel", "cuGraphLaunch"))
    assert [*kernels, *graphs] == [*dict.fromkeys(counted)]
    assert [kernels[1]] * 6 == counted[3::2], "every other one is of what was called"


def test_who_had_no_cpu_while_it_was_counted_is_counted_again_before_other_functions_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forward and backward launch in turn; a thread that never runs does not keep the others waiting for long.

    A third one, that runs less than these, is not tried again.
    """
    counted: list[tuple[int, str]] = []

    def count(point: Any) -> FunctionCalls:
        counted.append((point.thread, point.function))
        ran_s = 0.002 if point.thread == 7 and counted.count(counted[-1]) == 3 else 0.0
        return FunctionCalls(function=point.function, thread=point.thread, count=0, counted_s=0.0, ran_s=ran_s)

    monkeypatch.setattr(calls, "_count", count)
    found = {name: (Path("libcuda.so"), number) for number, name in enumerate(("cuLaunchKernel", "cuGraphLaunch"))}
    monkeypatch.setattr(calls, "_entry_points", lambda root, pid: found)
    counters = Counters(Path("/"))
    for ran_s in (0.0, 1.0):
        counters.find(
            replace(HERE, processes={7: _process(1, "train", {"7": ran_s, "8": 0.9 * ran_s, "9": 0.8 * ran_s})})
        )
    for _ in range(9):
        counters.next()
    assert [*((thread, "cuLaunchKernel") for thread in (7, 8, 9, 7, 8, 7, 8, 8)), (7, "cuGraphLaunch")] == counted


def test_a_rate_is_of_the_time_that_a_thread_ran() -> None:
    """And unknown of one that had no CPU while it was counted, but ran at other times."""
    mostly, never, idle = (
        FunctionCalls(function="f", thread=thread, count=count, counted_s=0.010, ran_s=ran_s)
        for thread, count, ran_s in ((7, 40, 0.004), (8, 0, 0.0), (9, 0, 0.0))
    )
    ran = {7: 0.5, 8: 0.5}
    assert {"f": pytest.approx(5000.0)} == a_second([mostly, never, idle], ran)
    assert {} == a_second([never], ran)
    assert {"f": 0.0} == a_second([idle], ran)


HERE = read(Path("/"), [os.getpid()])


def _process(parent: int, command: str, ran_s: Mapping[str, float]) -> ProcessAt:
    threads = {number: ThreadAt(of_it_s, 0.0, None, None, None) for number, of_it_s in ran_s.items()}
    return HERE.processes[os.getpid()]._replace(parent=parent, command=command, threads=threads)


def _has_run(found: Sequence[FunctionCalls]) -> bool:
    """Whether the job, which others may keep from the CPU for all of a count, was seen to launch."""
    return any(each.count > 0 for each in found)
