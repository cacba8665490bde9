"""Model: a training or inference step of a whole network."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.problem import Bound, Problem, Reference, named, option
from primbench.registry.networks import names, network, summaries

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

BACKWARD = 2  # passes of a forward pass's operations: gradients of the inputs and of the weights
# Of a prediction over the largest, of a gradient's sum over its norm: 1 where one is missing or is another.
TOLERANCE = {"float32": 1e-3, "tf32": 4e-2, "bfloat16": 0.1, "float16": 4e-2}


@dataclass(frozen=True)
class Model(Problem, name="model"):
    """Train a whole model, or have it predict: a step as torch computes it, on data that are there, copied or loaded.

    A step of train is forward, loss, backward and optimiser, as the model's original has them; one of inference is
    forward alone, without gradients. NAME is one of `primbench list models`. bfloat16 and float16 are torch's autocast.

    The batch is on the device where data=device; data=host copies it there in every step, from pinned memory unless
    --no-pin-memory. compile=graph replays the step as one CUDA graph, inductor has torch compile the network.

    Checked are loss and gradients, or predictions, of a small batch, against the same network in float64 on the CPU,
    with nothing drawn at random. A training step is counted as three forward passes.
    """

    network: str = named("the model", names)
    mode: str = option("train", "what a step does", ("train", "inference"))
    batch_size: int = option(0, "examples of a step; 0 is the original's", least=0)
    dtype: str = option("float32", "products and convolutions compute in it", ("float32", "bfloat16", "float16"))
    math_mode: str = option("ieee", "of float32 on a GPU", ("ieee", "tf32"))
    data: str = option("device", "where each batch comes from", ("device", "host"))
    pin_memory: bool = option(True, "copy from pinned memory, with data=host")
    compile: str = option("eager", "how torch runs it", ("eager", "graph", "inductor"))

    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType({"network": "fathom_memnet", "batch_size": 2})

    def settle(self) -> None:
        if not self.batch_size:
            object.__setattr__(self, "batch_size", summaries()[self.network].batch_size)
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"model math_mode=tf32 is for float32, not {self.dtype}")
        if self.compile == "graph" and self.data != "device":
            raise InvalidField(f"model compile=graph replays one batch: data=device, not {self.data}")

    @property
    def is_training(self) -> bool:
        return self.mode == "train"

    def flop(self) -> int:
        passes = 1 + BACKWARD if self.is_training else 1
        return passes * network(self.network).flop(self.batch_size)

    def bytes_moved(self) -> None:
        """Each layer reads what the one before it wrote, and how often depends on what is fused."""

    def bound(self) -> Bound:
        return Bound("flop_per_s", self.dtype, self.math_mode)

    def memory_bytes(self) -> int:
        """Weights, what training keeps beside them and between its passes; for inference the largest two layers."""
        from primbench.kernels.model._memory import step_bytes

        return step_bytes(network(self.network), self.batch_size, is_training=self.is_training)

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """launch_bound: the share of a step's time in a loop for which the GPU waits for launches."""
        main, stream_s, device_s = measured.main, measured.stream_s, measured.device_s
        return {
            "examples_per_second": self.batch_size / main.median_s if main else None,
            "launch_bound_fraction": 1 - device_s.median_s / stream_s.median_s if stream_s and device_s else None,
        }

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A batch, and int8[1]: 1, for random numbers are drawn as the original does."""
        import numpy as np

        return (*network(self.network).inputs(rng, self.batch_size), np.ones(1, np.int8))

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """A smaller batch, for the float64 of it takes a CPU; and 0: no device draws what another draws."""
        import numpy as np

        found = network(self.network)
        return (*found.checked_inputs(rng, min(self.batch_size, found.checked_batch)), np.zeros(1, np.int8))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """float64[values]: loss and sums of gradients, or the predictions."""
        from primbench.kernels.model._check import expected

        return expected(
            network(self.network, draws=False), inputs[:-1],
            is_training=self.is_training, arithmetic=self._arithmetic, tolerance=self.tolerance(),
        )  # fmt: skip

    def tolerance(self) -> float:
        return TOLERANCE[self._arithmetic]

    @property
    def _arithmetic(self) -> str:
        return "tf32" if self.math_mode == "tf32" else self.dtype
