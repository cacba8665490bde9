"""A step of one of the models that primbench has, captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.decompose.recording import recorder
from primbench.decompose.written import CapturedStep
from primbench.kernels.model.problem import Model
from primbench.timing.case import opened, setup_on

if TYPE_CHECKING:
    from collections.abc import Mapping

CALLS_BEFORE = 3  # in which what is made once is made, such as an optimizer's state


def captured(fields: Mapping[str, Any], device: str | None) -> CapturedStep:
    """fields: of a model, with data=device and compile=eager. device: None is the first GPU, else the CPU.

    Raises InvalidRequest and UnsupportedCase as measuring it does.
    """
    problem = Model(**fields)
    step = CapturedStep(f"a step of {problem.network}, {problem.mode}, {problem.batch_size} examples, {problem.dtype}")
    with opened(problem, None, device) as backend:
        prepared = setup_on(backend, problem)
        for _ in range(CALLS_BEFORE):
            prepared()
        with recorder(step):
            prepared()
        backend.synchronize()
        step.whole = problem
    return step
