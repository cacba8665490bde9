"""Program: a process that trains a model, or has it predict, from its start to its end."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from primbench.problem import Exact, Problem, named, option
from primbench.registry.networks import names, summaries

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

QUEUED = "queued"
STAGES = ("interpreter", "import", "context", "setup", "first_step", "steps", "end")


@dataclass(frozen=True)
class Program(Problem, name="program"):
    """Run a whole program: start Python, import torch, set a model up, make a first step and more, and end.

    Each call is a process of its own, from the moment it is asked for until it has ended, as time(1) has it. Beside
    that stand its stages: interpreter, until Python runs; import, of torch; context, the GPU's; setup, of the model and
    a batch; first_step, with what is tuned and loaded then; steps, the others; end, until the process is gone. They add
    up to the whole. queued is how long the process's first thread waited in all of these for a CPU, where the kernel
    counts it.

    NAME is one of `primbench list models`.
    """

    network: str = named("the model", names)
    mode: str = option("train", "what a step does", ("train", "inference"))
    batch_size: int = option(0, "examples of a step; 0 is the original's", least=0)
    steps: int = option(10, "that it makes, the first among them", least=1)
    gpu: bool = option(False, "compute on the first GPU that is visible")

    work = "start-up"
    margin = 0.05
    set_up_s = (4.0, 4.0)
    on_gpus = False
    sees_gpus = True
    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType({"network": "fathom_memnet", "batch_size": 2, "steps": 2, "mode": "train"})

    def settle(self) -> None:
        if not self.batch_size:
            object.__setattr__(self, "batch_size", summaries()[self.network].batch_size)

    def system_calls(self) -> tuple[str, ...]:
        return ("clone", "clone3", "vfork", "execve")

    def bytes_moved(self) -> None:
        """How many are read depends on what is installed."""

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        found = {name: measured.others.get(f"{name}_s") for name in (*STAGES, QUEUED)}
        return {f"{name}_s": each.median_s if each and each.samples_s else None for name, each in found.items()}

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        return ()

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int32[1]: the steps that the program says it made, each of which gave a finite number."""
        import numpy as np

        return Exact(np.full(1, self.steps, np.int32))

    def tolerance(self) -> float:
        """They were made, or they were not."""
        return 0.0
