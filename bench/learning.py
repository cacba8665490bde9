"""What every model learns from examples that can be learnt: its losses, how often it is right, and whether it passes.

All models, unless some are named; 5 seeds take a GPU up to a minute a model, and a CPU hours in all.
With --deterministic, CUBLAS_WORKSPACE_CONFIG=:4096:8 has to be set for a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from primbench.backends import Backend, open_backend
from primbench.errors import PrimbenchError
from primbench.kernels.learning import Learning
from primbench.problem import description_of
from primbench.registry import networks, setup_of
from primbench.timing.verify import on_host


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=networks.names())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=0)
    parser.add_argument("--deterministic", action="store_true")
    options = parser.parse_args()
    backend = open_backend("torch", options.device)
    for name in options.names:
        problem = Learning(
            name, steps=options.steps, seeds=options.seeds, batch_size=options.batch_size,
            deterministic=options.deterministic,
        )  # fmt: skip
        begun_s = time.perf_counter()
        try:
            words = _learnt(backend, problem)
        except PrimbenchError as refusal:
            words = f"{type(refusal).__name__}: {refusal}"
        print(f"{name}, batch {problem.batch_size}: {words}, {time.perf_counter() - begun_s:.0f} s", flush=True)
        backend.release()


def _learnt(backend: Backend, problem: Learning) -> str:
    """Raises VerificationError for a model that has not learnt."""
    step = setup_of("learning", "torch")(backend, problem, *map(backend.put, problem.inputs(np.random.default_rng(0))))
    on_host(backend, step())
    take = description_of(step).learnt
    assert take is not None
    found = take()
    first, last = (statistics.fmean(each) for each in (found.first_losses, found.last_losses))
    accuracies = "" if found.accuracies is None else f", right {' '.join(f'{each:.0%}' for each in found.accuracies)}"
    again = "the same" if found.first_unlike is None else f"unlike from step {found.first_unlike} on"
    return f"loss {first:.4g} to {last:.4g}{accuracies}, made again {again}"


if __name__ == "__main__":
    main()
