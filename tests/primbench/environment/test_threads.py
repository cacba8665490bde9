"""Threads that are placed apart from the first one of their process, and those of workers that it forked."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from primbench.environment.threads import thread_cpus, thread_niceness, thread_scheduling

ROOT = Path("/")
TELL = "print(flush=True)\nimport sys; sys.stdin.read()\n"
APART = f"""
import os, threading
def apart():
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
    os.setpriority(os.PRIO_PROCESS, 0, 7)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    done.set()
    threading.Event().wait()
done = threading.Event()
threading.Thread(target=apart, daemon=True).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()  # as the first one is
done.wait()
{TELL}"""
FORKED = f"""
import os, signal
parent = os.getpid()
reading, writing = os.pipe()
if not os.fork():
    import ctypes; ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.setpriority(os.PRIO_PROCESS, 0, 9)
    os.write(writing, b"1")
    signal.pause()
os.read(reading, 1)
{TELL}"""


@contextmanager
def running(script: str) -> Iterator[int]:
    """The number of a process that has done all but wait."""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout
        job.stdout.readline()
        yield job.pid


LAST_NUMBER = Path("/proc/sys/kernel/ns_last_pid")
"""The number that the kernel gave last: it gives the next one, and after the greatest begins again at 300."""


@pytest.mark.parametrize("first", ["", f"open({str(LAST_NUMBER)!r}, 'w').write('300')"], ids=["least", "greatest"])
def test_threads_placed_apart_from_the_first_are_counted_by_how_they_are(first: str) -> None:
    if first and not os.access(LAST_NUMBER, os.W_OK):
        pytest.skip(f"{LAST_NUMBER} may not be written: the first thread has the least number here")
    with running(f"{first}\n{APART}") as pid:
        found = thread_niceness(ROOT, pid), thread_scheduling(ROOT, pid)
    assert ({"7": 1}, {"batch": 1}) == found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: no thread can be bound to fewer")
def test_a_thread_bound_to_fewer_cpus_is_counted_by_these() -> None:
    with running(APART) as pid:
        assert {str(min(os.sched_getaffinity(0))): 1} == thread_cpus(ROOT, pid)


def test_threads_of_a_forked_worker_are_among_them() -> None:
    with running(FORKED) as pid:
        assert {"9": 1} == thread_niceness(ROOT, pid)


def test_threads_that_are_as_the_first_are_not_told_of() -> None:
    with running(TELL) as pid:
        assert [{}] * 3 == [read(ROOT, pid) for read in (thread_cpus, thread_niceness, thread_scheduling)]
