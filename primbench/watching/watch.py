"""Follow a job: its processes, a stretch a second, and between that looks at which threads are blocked."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from primbench.doctor.job import FunctionCalls, Job, Stretch
from primbench.environment.disks import of_open_files
from primbench.environment.limits import Limits
from primbench.environment.reading import group_of
from primbench.errors import InvalidRequest
from primbench.quantities import Seconds, Whole
from primbench.system.files import attempt, read_cpu_list
from primbench.system.neighbours import cpu_times, neighbours
from primbench.system.processes import check_runs, folder_of, has_ended, named, started
from primbench.watching import gpus
from primbench.watching.calls import Counters, summed
from primbench.watching.looks import GONE, Looks, are_at_rest, children_of, has_fuse, states_of
from primbench.watching.members import JobMembers
from primbench.watching.moment import Moment, read
from primbench.watching.stretch import between

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.measurement.readings import NeighbourProcess
    from primbench.watching.members import Others

EVERY_S = 1.0
LOOK_EVERY_S = 0.1
MOST_LOOKED_AT = 16  # threads, of which a look takes 6 us each


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What watching itself took."""

    cpu_time_s: Seconds
    """CPU time of the watching process, while it watched."""
    duration_s: Seconds
    samples: Whole


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What there was to see."""

    ended: bool
    """Whether the job ended."""
    whole: Stretch | None
    """All that was watched; None where it ended before a second look at it."""
    cost: Cost


def look(pid: int, root: Path = Path("/")) -> Job:
    """Raises InvalidRequest where there is no process of this number, or where it has ended."""
    check_runs(root, pid)
    online = attempt({}, "", partial(read_cpu_list, root / "sys/devices/system/cpu/online"))
    name, held_to = named(root, pid), group_of(Limits, root, pid)
    ahead_bytes = attempt({}, "", partial(of_open_files, root, pid))
    started(root, pid)
    return Job(
        pid=pid,
        name=name,
        limits=held_to,
        cpus_total=None if online is None else len(online),
        read_ahead_bytes=ahead_bytes,
    )


class Watch:
    """An iterator of stretches, until ``lasting_s`` have passed or the job has ended, which ``ended`` tells.

    Raises InvalidRequest where there is no process of this number. root: of /proc and /sys.
    """

    def __init__(
        self,
        pids: Sequence[int],
        lasting_s: float,
        root: Path = Path("/"),
        others: Others | None = None,
        *,
        counts_calls: bool = True,
    ) -> None:
        """pids: of the job's processes, of which the first one ends last, and what these start.

        others: who belongs to it as well. It goes on then as long as any of them does, or may still come.
        counts_calls: whether launches are counted.
        """
        pid = pids[0]
        self.job, self.ended = look(pid, root), False
        self._root, self._lasting_s = root, lasting_s
        self._started = started(root, pid)
        self._samples = 0
        self._others, self._counts_calls = others, counts_calls
        self._members = JobMembers(root, pids, others)
        self._closing = contextlib.ExitStack()
        self._read_gpus, no_gpus = self._closing.enter_context(gpus.reader())
        self._missing = {} if no_gpus is None else {"gpus": no_gpus}
        self._counters, self._has_fuse = Counters(root), has_fuse(root, pid)
        self._cpu_times = cpu_times(root)
        self._cpu_time_s, self._began_s = time.process_time(), time.monotonic()

    @property
    def cost(self) -> Cost:
        """So far."""
        return Cost(
            cpu_time_s=time.process_time() - self._cpu_time_s,
            duration_s=time.monotonic() - self._began_s,
            samples=self._samples,
        )

    def neighbours(self) -> list[NeighbourProcess]:
        """Others that used CPUs most by now."""
        lasted_s = time.monotonic() - self._began_s
        now = cpu_times(self._root)
        return neighbours(self._root, self._cpu_times, now, self._members.started_by.keys(), lasted_s)

    def __iter__(self) -> Iterator[Stretch]:
        with self._closing:
            yield from self._stretches()

    def _stretches(self) -> Iterator[Stretch]:
        before = self._moment()
        end_s = before.time_s + self._lasting_s
        while not self.ended and before.time_s < end_s:
            seen = self._look(before, min(before.time_s + EVERY_S, end_s))
            first, after = self.job.pid, self._moment(before)
            if first != self.job.pid:  # the counters of another one's groups begin elsewhere
                before = after
                continue
            if self.ended or self.job.pid not in after.processes:
                self.ended = True
                return
            self._samples += 1
            yield replace(
                between(before, after, self._began_s),
                **seen,
                gpus=self._read_gpus(after.processes.keys()),
                missing=after.missing | self._missing,
            )
            before = after

    def _moment(self, before: Moment | None = None) -> Moment:
        self._members.find(self.job.pid)
        self.ended = not (self._lives() or self._is_followed())
        pids = [self.job.pid, *(pid for pid in self._members.started_by if pid != self.job.pid)]
        return read(self._root, pids, before)

    def _is_followed(self) -> bool:
        """Whether another process tells now when the job ends: that of the next step, which may not have begun yet."""
        while self._others is not None and time.monotonic() < self._began_s + self._lasting_s:
            for pid in [*self._members.started_by]:
                with contextlib.suppress(OSError, InvalidRequest):
                    self.job, self._started = look(pid, self._root), started(self._root, pid)
                    return True
            if not self._others.may_come():
                break
            time.sleep(EVERY_S)
            self._members.find(self.job.pid)
        return False

    def _lives(self) -> bool:
        with contextlib.suppress(OSError, InvalidRequest):
            return not has_ended(self._root, self.job.pid) and started(self._root, self.job.pid) == self._started
        return False

    def _look(self, before: Moment, until_s: float) -> dict[str, Any]:
        """What a Stretch has of the states of threads and of calls, until then or until the job ends."""
        files, started_by = self._stat_files(before), dict[int, int]()
        looks, counted = Looks(self._root, self.job.pid, has_fuse=self._has_fuse), list[FunctionCalls]()
        if self._counts_calls:
            self._counters.find(before)
        while (self.job.pid in files or self._lives()) and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_EVERY_S, left_s))
            files, states = self._followed(files, started_by)
            looks.add(files, states, self._members.started_by.keys(), started_by)
            counted += self._counters.next()
        return looks.counted() | self._of_calls(counted)

    def _followed(self, files: dict[int, Path], started_by: dict[int, int]) -> tuple[dict[int, Path], dict[int, str]]:
        """The files without those of threads that have ended, with those of the processes that came since; all states.

        Those come that followed one that has ended, and those that threads have started which now are all at rest:
        who waits for one process after the other is not asleep while these compute.
        """
        states = states_of(files)
        left = {number: file for number, file in files.items() if states[number] not in GONE}
        known = self._members.started_by.keys()
        if len(left) == len(files) and not (are_at_rest(states) and children_of(left) - known):
            return files, states
        come = self._come(MOST_LOOKED_AT - len(left), started_by)
        return left | come, {number: states[number] for number in left} | states_of(come)

    def _come(self, most: int, started_by: dict[int, int]) -> dict[int, Path]:
        """The files of processes that came since. started_by: of these and those before, who was there at first."""
        before = {*self._members.started_by}
        self._members.find(self.job.pid)
        come = [pid for pid in self._members.started_by if pid not in before][:most]
        for pid in come:
            parent = self._members.started_by[pid] or pid
            started_by[pid] = started_by.get(parent, parent)
        return {pid: self._stat_file(pid, str(pid)) for pid in come}

    def _of_calls(self, counted: list[FunctionCalls]) -> dict[str, Any]:
        if self._counters.why_not is None:
            return {"calls": summed(counted)}
        self._missing["calls"] = self._counters.why_not
        return {"calls": None}

    def _stat_files(self, before: Moment) -> dict[int, Path]:
        """Thread -> its file, of those that are looked at: the first of each process before others."""
        firsts = [(pid, str(pid)) for pid in (self.job.pid, *before.processes)]
        threads = [*firsts, *((pid, number) for pid, process in before.processes.items() for number in process.threads)]
        return {int(number): self._stat_file(pid, number) for pid, number in [*dict.fromkeys(threads)][:MOST_LOOKED_AT]}

    def _stat_file(self, pid: int, thread: str) -> Path:
        return folder_of(self._root, pid) / "task" / thread / "stat"
