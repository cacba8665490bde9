"""The calls of a step on torch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import UnsupportedCase
from primbench.kernels.replay.problem import DELAYS_NS, delayed
from primbench.measurement import Samples
from primbench.problem import described, description_of, kernel
from primbench.registry import setup_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.kernels.replay.problem import Replay
    from primbench.problem import Step
    from primbench.spec.method import Method
    from primbench.timing.sampling import Pace

TRIES, TRIED = 50, 60
"""How often, and by how many waits in a row, it is found out how much longer one is than it was to be: so few that some
of these rows are disturbed by nothing.
"""
LEAST_ROUNDS = 3
TIMES = len(DELAYS_NS)
"""How many times as long as another metric all of the delays are sampled."""


@kernel("replay", "torch")
def torch_replay(backend: Any, problem: Replay) -> Step:
    """Raises UnsupportedCase where the device has none of its calls."""
    steps, reasons = _set_up(backend, problem)
    calls = [found for number in problem.step.order if (found := steps[number]) is not None]
    if not calls:
        raise UnsupportedCase(f"none of the step's calls: {'; '.join(dict.fromkeys(reasons))}")
    undos = [found for each in steps if each is not None and (found := description_of(each).undo)]

    def step() -> Any:
        for call in calls:
            found = call()
        return found

    def undo() -> None:
        for each in undos:
            each()

    counts = {"calls": len(calls), "left_out_calls": len(problem.step.order) - len(calls)}
    others = _Delays(backend, calls, undo).others() if problem.dosed else {}
    return described(step, host_buffers=[], counts=counts, others=others, undo=undo if undos else None)


def _set_up(backend: Any, problem: Replay) -> tuple[list[Step | None], list[str]]:
    """Of each part, None where there is none; and why."""
    import numpy as np

    steps: list[Step | None] = []
    reasons = []
    for one in problem.problems:
        part = one.on(backend.device)
        inputs = part.inputs(np.random.default_rng(0))
        try:
            steps.append(setup_of(part.primitive, backend.name)(backend, part, *map(backend.put, inputs)))
        except UnsupportedCase as reason:
            steps.append(None)
            reasons.append(str(reason))
    return steps, reasons


class _Waiting(NamedTuple):
    """A call, and whether it is one that is delayed."""

    call: Step
    waits: bool


class _Delays:
    """Times a step with each of the delays, round after round."""

    def __init__(self, backend: Any, calls: Sequence[Step], undo: Callable[[], None]) -> None:
        self._backend, self._undo = backend, undo
        on_gpu = backend.device.is_gpu
        self._calls = [_Waiting(call, not (on_gpu and description_of(call).launches_nothing)) for call in calls]
        self._taken_s: dict[int, list[float]] = {}

    def others(self) -> dict[str, Callable[[Method, Pace], Samples]]:
        """What takes the time with each delay; the first that is asked takes all."""
        return {delayed(delay_ns): self._samples_of(delay_ns) for delay_ns in DELAYS_NS}

    def _samples_of(self, delay_ns: int) -> Callable[[Method, Pace], Samples]:
        def samples(method: Method, pace: Pace) -> Samples:
            if not self._taken_s:
                self._taken_s = self._rounds(TIMES * method.min_time_s)
            taken_s = self._taken_s[delay_ns]
            return Samples(samples_s=taken_s, calls_per_sample=1, taken_by="host clock", stopped="max time")

        return samples

    def _rounds(self, lasting_s: float) -> dict[int, list[float]]:
        """In each round all delays, the shortest first in every other one."""
        excess_ns = _excess_ns()
        taken_s: dict[int, list[float]] = {delay_ns: [] for delay_ns in DELAYS_NS}
        begun_s, rounds = time.monotonic(), 0
        while rounds < LEAST_ROUNDS or time.monotonic() - begun_s < lasting_s:
            for delay_ns in DELAYS_NS[:: -1 if rounds % 2 else 1]:
                self._undo()
                self._backend.synchronize()
                taken_s[delay_ns].append(self._timed(delay_ns, excess_ns) / 1e9)
            rounds += 1
        return taken_s

    def _timed(self, delay_ns: int, excess_ns: float) -> int:
        clock = time.perf_counter_ns
        begun = clock()
        if delay_ns:
            _wait_before(self._calls, max(0, round(delay_ns - excess_ns)))
        else:
            for call, _ in self._calls:
                call()
        self._backend.synchronize()
        return clock() - begun


def _wait_before(calls: Sequence[_Waiting], wait_ns: int) -> None:
    clock = time.perf_counter_ns
    for call, waits in calls:
        if waits:
            until = clock() + wait_ns
            while clock() < until:
                pass
        call()


def _excess_ns() -> float:
    """By how much a wait is longer than it was asked to be, on average, the loop around it included."""
    clock, wait_ns = time.perf_counter_ns, DELAYS_NS[-1]
    empty = [_Waiting(int, waits=True)] * TRIED
    took_ns = []
    for _ in range(TRIES):
        begun = clock()
        _wait_before(empty, wait_ns)
        between = clock()
        for call, _waits in empty:
            call()
        took_ns.append((between - begun) - (clock() - between))
    return min(took_ns) / TRIED - wait_ns
