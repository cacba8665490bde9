"""Launches of kernels that CuPy has compiled, prepared before they are timed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

Launch = Callable[[], None]


def launch_of(compiled: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> Launch:
    """Of a module's kernel, whose numbers are unsigned and float."""
    import numpy as np

    of_type = {int: np.uint32, float: np.float32}
    converted = tuple(of_type.get(type(each), lambda array: array)(each) for each in arguments)
    return functools.partial(compiled.get_function(name), grid, block, converted)


def in_turn(launches: Sequence[Launch], output: Any) -> Callable[[], Any]:
    """A step of them, which write to the output."""

    def step() -> Any:
        for each in launches:
            each()
        return output

    return step
