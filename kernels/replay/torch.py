"""The calls of a step on torch."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.distributed.group import ALONE, Group
from primbench.errors import UnsupportedCase
from primbench.kernels.replay.problem import DELAYS_NS, delayed
from primbench.measurement import Samples
from primbench.problem import described, description_of, kernel
from primbench.registry import setup_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.kernels.replay.problem import Delayed, Replay
    from primbench.problem import Problem, Step
    from primbench.spec.method import Method
    from primbench.timing.sampling import Pace

TRIES, TRIED = 50, 60
"""How often, and by how many waits in a row, it is found out how much longer one is than it was to be: so few that some
of these rows are disturbed by nothing.
"""
LEAST_ROUNDS = 3
LONG_NS = 50_000
"""A wait in which others may run: what the kernel does for that takes some hundreds of nanoseconds."""


@kernel("replay", "torch")
def torch_replay(backend: Any, problem: Replay, group: Group = ALONE) -> Step:
    """Raises UnsupportedCase where the device has none of its calls, or for other ranks than take part."""
    group.check_size(problem.ranks)
    steps, reasons = _set_up(backend, problem, group)
    made = [_Call(problem.problems[at], there) for at in problem.step.order if (there := steps[at]) is not None]
    if not made:
        raise UnsupportedCase(f"none of the step's calls: {'; '.join(dict.fromkeys(reasons))}")
    calls = [each.step for each in made]
    undos = [found for each in steps if each is not None and (found := description_of(each).undo)]

    def step() -> Any:
        for call in calls:
            found = call()
        return found

    def undo() -> None:
        for each in undos:
            each()

    counts = {"calls": len(calls), "left_out_calls": len(problem.step.order) - len(calls)}
    others = _delayed(backend, made, undo, ranks=problem.ranks) if problem.dosed else {}
    return described(step, host_buffers=[], counts=counts, others=others, undo=undo if undos else None)


class _Call(NamedTuple):
    """One of the step's."""

    problem: Problem
    step: Step


def _set_up(backend: Any, problem: Replay, group: Group) -> tuple[list[Step | None], list[str]]:
    """Of each part, None where a rank has none; and why."""
    import numpy as np

    steps: list[Step | None] = []
    reasons = []
    for one in problem.problems:
        part = one.on(backend.device)
        inputs = part.inputs(np.random.default_rng(group.rank))
        of_group = {"group": group} if _is_together(part) else {}  # of one rank, too: torch has one group at a time
        try:
            steps.append(setup_of(part.primitive, backend.name)(backend, part, *map(backend.put, inputs), **of_group))
        except UnsupportedCase as reason:
            steps.append(None)
            reasons.append(str(reason))
    everywhere = group.agree([step is not None for step in steps], lambda ranks: [*map(all, zip(*ranks, strict=True))])
    return [step if is_there else None for step, is_there in zip(steps, everywhere, strict=True)], reasons


def _is_together(problem: Problem) -> bool:
    """Whether ranks make it together, and be it one."""
    return "ranks" in problem.parameters()


def _delayed(
    backend: Any, made: Sequence[_Call], undo: Callable[[], None], *, ranks: int
) -> dict[str, Callable[[Method, Pace], Samples]]:
    """What takes the times with delays: before each call, and of several ranks before each that they make together."""
    on_gpu = backend.device.is_gpu
    waiting = [_Waiting(step, not (on_gpu and description_of(step).launches_nothing)) for _, step in made]
    others = _Delays(backend, "calls", waiting, undo).others()
    together = [_Waiting(step, _is_together(problem)) for problem, step in made]
    if ranks > 1 and any(each.waits for each in together):
        others |= _Delays(backend, "collectives", together, undo).others()
    return others


class _Waiting(NamedTuple):
    """A call, and whether it is one that is delayed."""

    call: Step
    waits: bool


class _Delays:
    """Times a step with each of the delays, round after round, in step with other ranks."""

    def __init__(self, backend: Any, what: Delayed, calls: Sequence[_Waiting], undo: Callable[[], None]) -> None:
        self._backend, self._what, self._calls, self._undo = backend, what, calls, undo
        self._taken_s: dict[int, list[float]] = {}

    def others(self) -> dict[str, Callable[[Method, Pace], Samples]]:
        """What takes the time with each delay; the first that is asked takes all."""
        return {delayed(self._what, delay_ns): self._samples_of(delay_ns) for delay_ns in DELAYS_NS[self._what]}

    def _samples_of(self, delay_ns: int) -> Callable[[Method, Pace], Samples]:
        def samples(method: Method, pace: Pace) -> Samples:
            if not self._taken_s:
                self._taken_s = self._rounds(method.min_time_s, pace)
            taken_s = self._taken_s[delay_ns]
            return Samples(samples_s=taken_s, calls_per_sample=1, taken_by="host clock", stopped="max time")

        return samples

    def _rounds(self, lasting_s: float, pace: Pace) -> dict[int, list[float]]:
        """In each round all delays, the shortest first in every other one. lasting_s: of each."""
        excess_ns, delays_ns = _excess_ns(), DELAYS_NS[self._what]
        taken_s: dict[int, list[float]] = {delay_ns: [] for delay_ns in delays_ns}
        ends_ns, rounds = pace.now() + round(lasting_s * len(delays_ns) * 1e9), 0
        while rounds < LEAST_ROUNDS or pace.now() < ends_ns:
            for delay_ns in delays_ns[:: -1 if rounds % 2 else 1]:
                self._undo()
                self._backend.synchronize()
                pace.begin()
                taken_s[delay_ns].append(self._timed(delay_ns, excess_ns) / 1e9)
            rounds += 1
        slowest_s = map(pace.slowest, taken_s.values())
        return dict(zip(delays_ns, slowest_s, strict=True))

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
    """A long wait gives its CPU to whoever wants it, as one for another rank does: threads of these need it."""
    clock, give_way = time.perf_counter_ns, os.sched_yield if wait_ns >= LONG_NS else int
    for call, waits in calls:
        if waits:
            until = clock() + wait_ns
            while clock() < until:
                give_way()
        call()


def _excess_ns() -> float:
    """By how much a wait is longer than it was asked to be, on average, the loop around it included."""
    clock, wait_ns = time.perf_counter_ns, DELAYS_NS["calls"][-1]
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
