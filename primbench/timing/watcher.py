"""The process beside a case that samples what it uses: `python -P -m primbench.timing.watcher PID DEVICE`.

A thread would take the interpreter's lock from what is measured. It ends at a word on its input, with what it has
found, and when PID, its parent, is gone, however that ended.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench.devices import Device
from primbench.distributed.child import Child, readable
from primbench.errors import WorkerError
from primbench.measurement.over_time import MOST_SAMPLES, SERIES, OverTime, Series
from primbench.system.files import attempt
from primbench.system.said import Lines
from primbench.timing import peaks
from primbench.timing.usage import readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from primbench.backends import Backend
    from primbench.measurement.over_time import UsageReader
    from primbench.timing.peaks import Marks

INTERVAL_S = 0.1
MOST_SHARE = 0.02  # of a CPU's time for one reader; one that is dearer is asked less often
LEAST_URGENT = 19  # nice(2)
TIMEOUT_S = 30.0  # for a word from the watcher
READY, END = b"ready\n", b"end\n"


@contextmanager
def watched(backend: Backend, why_not: str | None, missing: dict[str, str]) -> Iterator[Callable[[], OverTime | None]]:
    """Sample what this process and those it starts use, until the function is called that this gives.

    It returns what was found; None, with the reason in ``missing``, where there is nothing. why_not: one known before.
    """
    if why_not is not None:
        missing["over_time"] = why_not
    watcher = None if why_not else attempt(missing, "over_time", lambda: _started(backend.device))
    if watcher is None:
        yield lambda: None
        return
    try:
        marks = peaks.start(backend)
        yield lambda: attempt(missing, "over_time", lambda: _asked_to_end(watcher, marks))
    finally:
        watcher.end()


def _started(device: Device) -> Child:
    """The watcher, once it is about to take its first sample. Raises WorkerError."""
    watcher = Child("watcher", "primbench.timing.watcher", [str(os.getpid()), str(device)], verbose=False)
    try:
        if (line := _line(watcher)) != READY:
            raise WorkerError(f"what starts with the watcher's Python printed {line[:60].decode(errors='replace')!a}")
    except BaseException:
        watcher.end()
        raise
    return watcher


def _asked_to_end(watcher: Child, marks: Marks) -> OverTime:
    """Raises WorkerError."""
    with suppress(BrokenPipeError):  # what it died of is told where it does not answer
        watcher.write(END)
    found = msgspec.json.decode(_line(watcher), type=OverTime)
    missing = dict(found.missing)
    return replace(found, **peaks.since(marks, missing), missing=missing)


def _line(watcher: Child) -> bytes:
    said = Lines()
    while not said:
        if not readable([watcher.stdout], TIMEOUT_S):
            raise WorkerError(f"watcher gave no answer within {TIMEOUT_S:g} s")
        chunk = os.read(watcher.stdout, 1 << 20)
        if not chunk:
            raise WorkerError(watcher.cause_of_death())
        said.add(chunk)
    return said.take() + b"\n"


class Curves:
    """Series as they grow. They cover all of the time, the less densely the longer it is."""

    def __init__(self) -> None:
        self.interval_s = INTERVAL_S
        self._points: dict[str, list[tuple[float, float]]] = {}

    def add(self, time_s: float, values: Mapping[str, float | None]) -> None:
        for name, value in values.items():
            if value is not None:
                self._points.setdefault(name, []).append((round(time_s, 6), value))

    def thin(self) -> None:
        """Where a series is full, drop every second sample, and let twice the time pass between those that come."""
        if max(map(len, self._points.values()), default=0) < MOST_SAMPLES:
            return
        self.interval_s *= 2
        for points in self._points.values():
            if len(points) > MOST_SAMPLES // 2:  # one that is dear to read lies less dense as it is
                del points[1::2]

    def series(self) -> dict[str, Series]:
        return {
            name: Series(times_s=[time_s for time_s, _ in points], values=[value for _, value in points])
            for name in SERIES
            if (points := self._points.get(name))
        }


class Source:
    """A reader with what it costs, which says when it may be asked again."""

    def __init__(self, read: UsageReader) -> None:
        self._read = read
        self._due_s = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due_s

    def values(self, missing: dict[str, str]) -> Mapping[str, float | None]:
        start_s = time.process_time()
        found = self._read(missing)
        self._due_s = time.monotonic() + (time.process_time() - start_s) / MOST_SHARE
        return found


def main() -> None:
    parent, device = int(sys.argv[1]), Device.parse(sys.argv[2])
    missing: dict[str, str] = {}
    with readers(parent, device, missing) as found:
        for read in found:
            read(missing)  # a driver's first calls take milliseconds
        _give_way()  # not before: the parent waits
        begun_s = time.monotonic()  # not after the word, after which others may be given this CPU
        os.write(1, READY)
        over_time = _sampled([Source(read) for read in found], parent, begun_s, missing)
    sys.stdout.buffer.write(msgspec.json.encode(over_time) + b"\n")


def _give_way() -> None:
    """To what is measured: run when nothing else does, on any CPU, where the parent may be bound to a few."""
    os.nice(LEAST_URGENT)
    with suppress(OSError):
        os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))  # numbers in use may have gaps


def _sampled(sources: list[Source], parent: int, begun_s: float, missing: dict[str, str]) -> OverTime:
    curves, rounds, is_over = Curves(), 0, False
    spent_s = time.process_time()

    def sample(asked: Iterable[Source]) -> None:
        for source in asked:
            values = source.values(missing)
            curves.add(time.monotonic() - begun_s, values)

    while not is_over:
        round_s = time.monotonic()
        sample(source for source in sources if source.is_due)
        curves.thin()
        rounds += 1
        is_over = _is_told_to_end(parent, max(0.0, round_s + curves.interval_s - time.monotonic()))
    sample(sources)
    series = curves.series()
    return OverTime(
        series=series,
        interval_s=curves.interval_s,
        cost_s=(time.process_time() - spent_s) / (rounds + 1),
        missing={name: reason for name, reason in missing.items() if name not in series},
    )


def _is_told_to_end(parent: int, timeout_s: float) -> bool:
    """Ends the process where the parent has ended. Another process that it forked may still hold the pipe open."""
    told = bool(readable([0], timeout_s))
    if os.getppid() != parent or (told and not os.read(0, len(END))):
        os._exit(0)
    return told


if __name__ == "__main__":
    main()
