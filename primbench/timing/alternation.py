"""Steps timed by turns: whatever slows the machine meanwhile is to slow all of them."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.timing.calls import CallLoop
from primbench.timing.sampling import Pace, collect, main_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.measurement import Samples
    from primbench.problem import Step
    from primbench.spec.method import Method

SAMPLE_S = 10e-3  # of steps one behind the other, so that a GPU waits for the first alone


def in_alternation(backend: Backend, step: Step, *others: Step) -> Callable[[Method, Pace], tuple[Samples, ...]]:
    """What times all of them, as often as the first one needs: sample i of each is of the same round."""

    @functools.cache
    def taken(method: Method, pace: Pace) -> tuple[Samples, ...]:
        (call_s,) = _timed(backend, step, 1, pace)()
        count = math.ceil(SAMPLE_S / call_s)
        take, *take_others = (_timed(backend, each, count, pace) for each in (step, *others))
        of_others: list[list[float]] = [[] for _ in others]

        def take_all() -> list[float]:
            for samples_s, take_other in zip(of_others, take_others, strict=True):
                samples_s.extend(take_other())
            return take()

        samples = collect(take_all, main_rule(method), pace, calls_per_sample=count, taken_by="host clock")
        return samples, *(replace(samples, samples_s=samples_s) for samples_s in of_others)

    return taken


def _timed(backend: Backend, step: Step, count: int, pace: Pace) -> Callable[[], list[float]]:
    """Seconds a call, of ``count`` that are waited for together."""
    calls = CallLoop([step])

    def calls_and_wait() -> None:
        calls(count)
        backend.synchronize()

    take = pace.host_timed(CallLoop([calls_and_wait]), 1)
    return lambda: [each / count for each in take()]
