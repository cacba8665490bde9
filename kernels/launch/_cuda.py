"""What launches have in common on a GPU, whoever makes them: one of them, or the replay of a graph of many."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError
from primbench.gpu.nvidia import driver
from primbench.problem import described

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Array, Step

Replay = tuple[int, "Step"]
"""How many nodes a captured graph has, and the call that launches it."""


def cuda_step(
    backend: Any, problem: Launch, launches: Sequence[Step], capture: Callable[[Callable[[], None]], Replay]
) -> Step:
    """The one launch, or a call that replays all of them, which says its ``others``.

    launches: one a node, at least one; each can carry attributes. Every one is made here, so that nothing is loaded
    or compiled later. capture: makes a graph of what a function enqueues, in the framework's own way.
    """
    from primbench.kernels.launch import _times

    def enqueue() -> None:
        for launch in launches:
            launch()

    enqueue()
    backend.synchronize()
    stream = backend.stream_handle
    if not problem.nodes:
        return described(launches[0], others={"full_queue_s": _times.full_queue(launches[0], stream)})
    nodes, step = capture(enqueue)
    if nodes != problem.nodes:
        raise PrimbenchError(f"a graph of {problem.nodes} launches has {nodes} nodes")
    # stream_only: a graph being launched cannot be captured.
    instantiation = _times.instantiation(functools.partial(driver.captured, stream, enqueue))
    return described(step, stream_only=True, others={"instantiate_s": instantiation})


def parameters(problem: Launch, output: Any) -> list[Array]:
    """What each node's kernel is given: int32 words, the first two the address where it writes the last one.

    Node i writes i + 1 to element i of ``output``, of int32. The words hold an address only: keep ``output`` alive.
    """
    import numpy as np

    first = int(output.__cuda_array_interface__["data"][0])
    words = np.zeros((max(1, problem.nodes), problem.parameter_bytes // 4), np.int32)
    for node, row in enumerate(words):
        row[:2].view(np.int64)[0] = first + node * words.itemsize
        row[-1] = node + 1
    return list(words)
