"""How fast the CPU is at the moment, and whether there is one: beside what is measured.

A short loop of Python is timed, on the thread that calls. Other threads of the process may have to wait for a CPU,
which the calling one then does for them: the kernel counts it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time

TURNS = 4_000  # of the loop; they take some 25 us
EVERY_S = 0.5e-3  # at most so often: the loop takes a twentieth of it
RARELY = 20  # times as long as it takes to read what all threads waited is between two such readings
TASKS = "/proc/self/task"


class Loop:
    """Calling it times the loop, unless that was done a moment ago."""

    def __init__(self) -> None:
        self._ended_ns = 0

    def __call__(self, every_s: float = EVERY_S) -> float | None:
        """Seconds; None where too little time has passed."""
        start_ns = time.perf_counter_ns()
        if start_ns - self._ended_ns < every_s * 1e9:
            return None
        for _ in itertools.repeat(None, TURNS):  # not numbers, which need memory: PYTHONMALLOC=debug makes it dear
            pass
        self._ended_ns = time.perf_counter_ns()
        return (self._ended_ns - start_ns) / 1e9


class Queue:
    """A stopwatch of how long threads of this process wait for a CPU: in each lap, of the one that waited longest.

    Source: Linux, scheduler/sched-stats.rst, /proc/PID/schedstat.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._ran_ns: dict[str, int] = {}
        self._before_ns: dict[str, int] = {}
        self._lap_ns = 0
        self.every_s = EVERY_S
        self.watch()
        self.close()

    def watch(self) -> None:
        """Look at this thread, and at those that ran since the last time: not at those that a library keeps asleep."""
        self.close()
        own, ran_ns = str(threading.get_native_id()), {}
        for thread in _threads():
            with contextlib.suppress(OSError), contextlib.ExitStack() as opened:  # it has just ended
                file = os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY)
                opened.callback(os.close, file)
                ran_ns[thread], _ = _counted_ns(file)
                if thread == own or ran_ns[thread] != self._ran_ns.get(thread):
                    self._files[thread] = file
                    opened.pop_all()
        if not ran_ns.get(own):  # a kernel that does not count writes zeros
            self.close()
        self._ran_ns, self._lap_ns = ran_ns, 0
        start_ns = time.perf_counter_ns()
        self.resume()
        self.every_s = max(EVERY_S, RARELY * (time.perf_counter_ns() - start_ns) / 1e9)

    def pause(self) -> None:
        before_ns = self._before_ns
        self.resume()
        self._lap_ns += max((now - before_ns.get(each, now) for each, now in self._before_ns.items()), default=0)

    def resume(self) -> None:
        self._before_ns = {}
        for thread, file in self._files.items():
            with contextlib.suppress(OSError):  # it has ended
                _, self._before_ns[thread] = _counted_ns(file)

    def lap_s(self) -> float | None:
        """End a lap, and begin the next one. None where the kernel does not count."""
        self.pause()
        lap_ns, self._lap_ns = self._lap_ns, 0
        return lap_ns / 1e9 if self._files else None

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files = {}


class ReadBetween:
    """What is read between the samples of one metric, as Samples has it. loop: None reads nothing."""

    def __init__(self, loop: Loop | None, queue: Queue) -> None:
        self._loop, self._queue = loop, queue
        self.loops_s: list[tuple[int, float]] = []
        self.queued_s: list[float] = []

    def __enter__(self) -> ReadBetween:
        if self._loop:
            self._queue.watch()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._queue.close()

    def look(self, samples: int) -> None:
        """Before the sample of this number."""
        if self._loop and (loop_s := self._loop(self._queue.every_s)) is not None:
            self.end()
            self.loops_s.append((samples, loop_s))

    def end(self) -> None:
        queued_s = self._queue.lap_s()
        if self.loops_s and queued_s is not None:
            self.queued_s.append(queued_s)


def _threads() -> list[str]:
    try:
        return os.listdir(TASKS)
    except OSError:
        return []


def _counted_ns(file: int) -> tuple[int, int]:
    """How long the thread ran, and waited."""
    ran, waited, *_ = os.pread(file, 80, 0).split()
    return int(ran), int(waited)
