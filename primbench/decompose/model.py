"""A step of one of the models that primbench has, captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.decompose.recording import recorder
from primbench.decompose.written import CapturedStep
from primbench.timing.case import opened, setup_on

if TYPE_CHECKING:
    from primbench.problem import Problem

CALLS_BEFORE = 3  # in which what is made once is made, such as an optimizer's state


def captured(problem: Problem, device: str | None) -> CapturedStep:
    """problem: a whole model, with data=device and compile=eager. device: None is the first GPU, else the CPU.

    Raises InvalidRequest and UnsupportedCase as measuring it does.
    """
    words = "a step of {network}, {mode}, {batch_size} examples, {dtype}"
    step = CapturedStep(words.format_map(problem.parameters()))
    with opened(problem, None, device) as backend:
        prepared = setup_on(backend, problem)
        for _ in range(CALLS_BEFORE):
            prepared()
        with recorder(step):
            prepared()
        backend.synchronize()
        step.whole = problem
    return step
