"""What a worker does that is a neighbour: calls one problem over and over until its parent is gone."""

from __future__ import annotations

import select
import time
import traceback
from typing import TYPE_CHECKING, BinaryIO

from primbench.registry import build, setup_of
from primbench.spec.method import Method
from primbench.timing.calls import CallLoop
from primbench.timing.feasibility import check_memory
from primbench.timing.inputs import first_calls, set_up
from primbench.timing.raised import one_line
from primbench.workers.protocol import Called, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.backends import Backend
    from primbench.spec.neighbour import Neighbour

TOGETHER_S = 0.02  # of calls that are waited for together: a GPU is not without work between them


def call_until_told(
    backend: Backend, neighbour: Neighbour, source: BinaryIO, tell: Callable[[Called | Outcome], None]
) -> None:
    """Call from the first word from source on, and tell how often at each, until that ends.

    Until then it disturbs nobody, so that it can be started ahead. What goes wrong is told at the next word.
    """
    select.select([source], [], [])
    try:
        for called in _calling(backend, neighbour, lambda: bool(select.select([source], [], [], 0)[0])):
            if not source.readline():
                return
            tell(called)
    except Exception as error:  # whatever a framework raises is the neighbour's end, and its case's
        traceback.print_exc()  # seen with --verbose
        if source.readline():
            tell(Outcome(status="failed", reason=one_line(error)))


def _calling(backend: Backend, neighbour: Neighbour, is_asked: Callable[[], bool]) -> Iterator[Called]:
    """How often it has called whenever that is asked, which it is after calls that are done."""
    calls = _prepared(backend, neighbour)
    done, together = 0, 1
    while True:
        started = time.monotonic()
        if calls.is_prepared:
            calls.prepare()
        calls(together)
        backend.synchronize()
        done += together
        now = time.monotonic()
        if is_asked():
            yield Called(calls=done, time_s=now)
        if not calls.is_prepared:  # which is done before each call
            together = max(1, min(2 * together, int(together * TOGETHER_S / max(now - started, 1e-6))))


def _prepared(backend: Backend, neighbour: Neighbour) -> CallLoop:
    """Raises UnsupportedCase for what does not fit in memory."""
    import numpy as np

    method = Method()
    problem = build(neighbour.primitive, neighbour.parameters).on(backend.device)
    check_memory(backend, problem)
    kernel = setup_of(neighbour.primitive, backend.name)
    steps, _ = set_up(backend, problem, problem.inputs(np.random.default_rng(method.seed)), method, kernel)
    first_calls(backend, steps)
    return CallLoop(steps)
