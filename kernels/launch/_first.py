"""What a call takes the first time, with all that has to be made for it: compiled, registered, loaded."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from primbench.measurement import Samples
from primbench.problem import described, description_of

if TYPE_CHECKING:
    from primbench.backends import Backend
    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Setup, Step

_TOOK_S: dict[tuple[str, str, Launch], float] = {}  # of this process, in which there is one first time


def first_timed(setup: Setup) -> Setup:
    """A setup that makes the first call, whose step has ``first_s`` among its ``others``.

    It is one sample: from before the set-up to the end of the call. The framework is imported by then.
    """

    @functools.wraps(setup)
    def with_first(backend: Backend, problem: Launch, *inputs: Any) -> Step:
        begin_s = time.perf_counter()
        step = setup(backend, problem, *inputs)
        step()
        backend.synchronize()
        took_s = _TOOK_S.setdefault((backend.name, str(backend.device), problem), time.perf_counter() - begin_s)
        first = Samples(samples_s=[took_s], calls_per_sample=1, taken_by="host clock", stopped="count")
        return described(step, others={**description_of(step).others, "first_s": lambda *_: first})

    return with_first
