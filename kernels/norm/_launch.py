"""Launches of kernels that CuPy has compiled, prepared before they are timed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

Launch = Callable[[], None]


def launch_of(
    compiled: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any, shared_bytes: int = 0
) -> Launch:
    """Of a module's kernel, whose numbers are unsigned and float. shared_bytes: that a block is given at launch."""
    import numpy as np

    of_type = {int: np.uint32, float: np.float32}
    converted = tuple(of_type.get(type(each), lambda array: array)(each) for each in arguments)
    function = compiled.get_function(name)
    if shared_bytes:
        function.max_dynamic_shared_size_bytes = shared_bytes  # 48 KiB are what it has unasked
    return functools.partial(function, grid, block, converted, shared_mem=shared_bytes)


def in_turn(launches: Sequence[Launch], output: Any) -> Callable[[], Any]:
    """A step of them, which write to the output."""

    def step() -> Any:
        for each in launches:
            each()
        return output

    return step
