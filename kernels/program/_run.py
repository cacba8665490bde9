"""What the process runs: a program as a user would write it, which says when each of its stages has ended.

It is started as ``python -P _run.py PIPE NETWORK MODE BATCH_SIZE STEPS DEVICE [FILE.py]...``, files as of --kernels.
"""

from __future__ import annotations

import time

BEGUN_NS = time.monotonic_ns()

TYPE_CHECKING = False  # typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def main(words: Sequence[str]) -> None:
    import os

    import torch

    pipe, name, mode, batch_size, steps, device, *files = words
    ended_ns = [BEGUN_NS, time.monotonic_ns()]

    def stage() -> None:
        if device != "cpu":
            torch.cuda.synchronize()
        ended_ns.append(time.monotonic_ns())

    torch.empty(1, device=device)
    stage()
    step = prepared(name, mode, int(batch_size), device, files)
    stage()
    made = int(torch.isfinite(step()))
    stage()
    for _ in range(int(steps) - 1):
        made += int(torch.isfinite(step()))  # as loops that print their loss do, it waits for each
    stage()
    os.write(int(pipe), f"{made} {_queued_ns()} {' '.join(map(str, ended_ns))}".encode())


def _queued_ns() -> int:
    """How long this thread has waited for a CPU so far; -1 where the kernel does not count it.

    Source: Linux, scheduler/sched-stats.rst, schedstat.
    """
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            ran_ns, queued_ns, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return -1
    return queued_ns if ran_ns else -1


def prepared(name: str, mode: str, batch_size: int, device: str, files: Sequence[str] = ()) -> Callable[[], Any]:
    """A step, which returns one number. files: in which a model may be, too."""
    import numpy as np
    import torch

    from primbench.registry import add_file
    from primbench.registry.networks import network

    for file in files:
        add_file(file)
    found = network(name)
    torch.manual_seed(0)
    module = found.module().to(device).train(mode == "train")
    batch = [torch.from_numpy(each).to(device) for each in found.inputs(np.random.default_rng(0), batch_size)]

    def predict() -> Any:
        with torch.no_grad():
            return found.predict(module, *batch).sum()

    if mode == "inference":
        return predict
    optimiser = found.optimiser(module.parameters())  # which takes torch a second, and no prediction needs

    def train() -> Any:
        optimiser.zero_grad(set_to_none=True)
        loss = found.loss(module, *batch)
        loss.backward()
        found.after_backward(module)
        optimiser.step()
        return loss.detach()

    return train


if __name__ == "__main__":
    import sys

    try:
        main(sys.argv[1:])
    except Exception as error:  # whatever a model of the user's own raises
        from primbench.timing.raised import one_line

        sys.exit(one_line(error))
