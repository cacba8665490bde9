"""Processes that time the same case in turn: while one samples, the others sleep.

What a machine's CPUs and clocks do from one second to the next then falls on all of them alike, and not on the one that
happened to run at that moment. Times stay those of a process alone: the calls at the beginning of a turn, for which a
GPU has to change processes and a core to fill its caches, do not count.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from primbench.measurement.readings import Turns
from primbench.timing import queued
from primbench.timing.sampling import CLOCK, MIN_TURNS, Clock, Pace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.devices import Device
    from primbench.timing.calls import CallLoop
    from primbench.timing.sampling import Stopped, StoppingRule

GiveAway = Callable[[bool], bool]
"""Gives the turn away, and returns at the next one. Told whether this process is done, it tells whether all are."""

TURN_NS = 2_000_000
THREADED_TURN_NS = 100_000_000  # where threads take as long to fall asleep
UNCOUNTED_NS = 500_000  # a GPU takes 100 us to change processes, a core some 200 us to fill its caches
BUSY = 0.05  # of a CPU; threads that take more are awake
LOOK_S, MAX_LOOKS = 5e-3, 100
LONG_NS = 10_000_000  # a sample so long that what a change costs is lost in it


class InTurn(Pace):
    """The clock stands still while others have their turn, and a metric ends in all processes at once."""

    def __init__(
        self,
        give_away: GiveAway,
        cpu: int | None = None,
        clock: Clock = CLOCK,
        *,
        others_follow: bool = False,
        shares_s: Mapping[str, float] | None = None,
    ) -> None:
        """cpu: that all processes are to call from; None is any. others_follow: whether more of them begin after this
        one, before any samples. shares_s: how long metrics are worth sampling.
        """
        self._waited_ns = self._uncounted_ns = 0
        super().__init__(clock)
        self.has_others, self.others_follow = True, others_follow
        self._cpu = cpu
        self._shares_s = dict(shares_s or {})
        self._turn_ns = TURN_NS
        self._give_away = give_away
        self._began_ns = self._last_ns = clock()
        self._others_ns = _cpu_of_others_ns()
        self._turns = self._of_metric = 1
        self._least_turns, self._hard_ns = MIN_TURNS, math.inf
        self._queued_s = 0.0

    def own(self) -> int:
        return self.clock() - self._waited_ns - self._uncounted_ns

    def moment(self) -> int:
        """The clock's, by which turns begin and end."""
        return self.clock()

    def others_are_awake(self) -> bool:
        """Whether other threads of this process have worked in this turn."""
        return _cpu_of_others_ns() - self._others_ns > BUSY * (self.clock() - self._began_ns)

    def shared(self, metric: str, rule: StoppingRule) -> StoppingRule:
        if (share_s := self._shares_s.get(metric)) is None:
            return rule
        lasting_s = min(share_s, rule.max_time_s)
        return replace(rule, min_time_s=lasting_s, max_time_s=lasting_s)

    def meet(self, uncounted: Callable[[], object], rule: StoppingRule) -> None:
        while not self._wait(done=True):
            pass
        self._turn_ns, self._of_metric, self._least_turns = TURN_NS, 1, rule.least_turns
        self._call_uncounted(uncounted)
        self._hard_ns = self.now() + rule.hard_s * 1e9

    def is_over(self, stopped: Stopped | None, uncounted: Callable[[], object]) -> bool:
        now = self.moment()
        sample_ns, self._last_ns = now - self._last_ns, now
        is_at_its_end = stopped is not None and self.now() >= self._hard_ns
        if now - self._began_ns < self._turn_ns and not is_at_its_end:
            return False
        self.queue.pause()
        is_long_enough = self._of_metric >= self._least_turns or is_at_its_end
        is_over = self._wait(done=stopped is not None and is_long_enough)
        if not is_over and sample_ns < LONG_NS:
            self._call_uncounted(uncounted)
        self.queue.resume()
        return is_over

    @contextlib.contextmanager
    def in_place(self, calls: CallLoop, device: Device) -> Iterator[None]:
        """This thread on the CPU that all processes call from, unless calls are shared out to other threads.

        Those would be woken on the same CPU, and have to wait for it. What others allow this thread meanwhile stays.
        """
        before = os.sched_getaffinity(0)
        if self._cpu is not None and not device.is_gpu and (calls.are_processes or _are_shared_out(calls)):
            self._cpu = None
        if self._cpu not in before:
            self._cpu = None
        if self._cpu is not None:
            os.sched_setaffinity(0, {self._cpu})
        try:
            yield
        finally:
            if os.sched_getaffinity(0) == {self._cpu}:
                os.sched_setaffinity(0, before)

    def turns(self) -> Turns:
        return Turns(
            count=self._turns,
            cpu=self._cpu,
            waited_s=self._waited_ns / 1e9,
            queued_s=None if math.isnan(self._queued_s) else self._queued_s,
            uncounted_s=self._uncounted_ns / 1e9,
            shares_s=self._shares_s,
        )

    def _wait(self, *, done: bool) -> bool:
        start, queued_s = self.moment(), queued.queued_s()
        self._turn_ns = TURN_NS
        if self.others_are_awake():
            self._turn_ns = THREADED_TURN_NS
            _fall_asleep()
        all_done = self._give_away(done)
        self._queued_s += queued.queued_s() - queued_s
        self._began_ns = self._last_ns = self.moment()
        self._waited_ns += self._began_ns - start
        self._others_ns = _cpu_of_others_ns()
        self._turns += 1
        self._of_metric += 1
        return all_done

    def _call_uncounted(self, uncounted: Callable[[], object]) -> None:
        start = now = self.moment()
        while now - start < UNCOUNTED_NS:
            uncounted()
            now = self.moment()
        self._uncounted_ns += now - start
        self._began_ns = self._last_ns = now


def _are_shared_out(calls: CallLoop) -> bool:
    """Whether other threads of this process work while it calls."""
    _fall_asleep()
    start_ns, others_ns = time.perf_counter_ns(), _cpu_of_others_ns()
    while time.perf_counter_ns() - start_ns < TURN_NS:
        calls(1)
    return _cpu_of_others_ns() - others_ns > BUSY * (time.perf_counter_ns() - start_ns)


def _fall_asleep() -> None:
    """Wait until this process's other threads use no CPU.

    Those of a library look for more work when a call is over, OpenBLAS's for a tenth of a second, and would take CPUs
    from the process that has the next turn.
    """
    for _ in range(MAX_LOOKS):
        before_ns = _cpu_of_others_ns()
        time.sleep(LOOK_S)
        if _cpu_of_others_ns() - before_ns < BUSY * LOOK_S * 1e9:
            return


def _cpu_of_others_ns() -> int:
    """CPU time of all threads of this process but this one."""
    return time.process_time_ns() - time.thread_time_ns()
