"""The inputs of a normalisation by name, and the constant that all of its backends share."""

from __future__ import annotations

from typing import Any

EPSILON = 1e-5  # torch's, of all three kinds; the inputs' variance is 1/3
MOMENTUM = 0.1  # with which running means follow: torch's


def named_inputs(problem: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """A Norm's inputs by name: x, weight, bias, running_mean, running_var, dy; None for what there is not."""
    names = ["x", "weight", *(["bias"] if problem.kind != "rms" else [])]
    names += ["running_mean", "running_var"] if problem.kind == "batch" else []
    names += ["dy"] if problem.direction == "backward" else []
    return dict.fromkeys(("bias", "running_mean", "running_var", "dy")) | dict(zip(names, inputs, strict=True))
