"""Learning: a network trained from fresh weights, several times over, on examples that follow a rule."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.kernels.model import Model
from primbench.problem import Bound, Exact, Problem, named, option
from primbench.registry.networks import names, network, summaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

BATCHES = 16  # of which a training goes round
HELD_OUT = 256  # examples that a network is asked about; as many more as fill the last batch


@dataclass(frozen=True)
class Learning(Problem, name="learning"):
    """Train a whole model from fresh weights, on examples made by a rule: its time, its losses, how often it is right.

    Each call is one training of so many steps, weights drawn and brought to the device included, from the next of the
    seeds; a step is that of model. Examples are made up, each of one of a few patterns, a quarter of it noise, and are
    the same for every seed. Where they have classes, each network is asked about others of the same patterns: accuracy
    is the share it is right about, the mean over seeds, and beside it the standard deviation.

    Checked is that the loss falls, and that more is right than by guessing. --deterministic has torch take algorithms
    alone that give the same each time, so that the loss of every step can be compared between places, to the last bit.

    NAME is one of `primbench list models`.
    """

    network: str = named("the model", names)
    steps: int = option(0, "of a training; 0 is as many as the model learns in", least=0)
    seeds: int = option(5, "trainings, each from other first weights", least=1)
    batch_size: int = option(0, "examples of a step; 0 is a few that the model learns from", least=0)
    dtype: str = option("float32", "products and convolutions compute in it", ("float32", "bfloat16", "float16"))
    math_mode: str = option("ieee", "of float32 on a GPU", ("ieee", "tf32"))
    deterministic: bool = option(False, "only algorithms that give the same each time")

    margin = 0.05
    set_up_s = (15.0, 6.0)
    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType(
        {"network": "fathom_memnet", "steps": 20, "seeds": 2, "batch_size": 16, "dtype": "float32"}
    )

    def settle(self) -> None:
        usual = summaries()[self.network]
        object.__setattr__(self, "batch_size", self.batch_size or usual.learning_batch)
        object.__setattr__(self, "steps", self.steps or usual.learning_steps)
        if self.steps == 1:
            raise InvalidField("learning steps=1: the loss of one step cannot fall: give 2 or more")
        _ = self.step  # which refuses what does not go together

    @cached_property
    def step(self) -> Model:
        """What is done in each step."""
        return Model(self.network, batch_size=self.batch_size, dtype=self.dtype, math_mode=self.math_mode)

    def flop(self) -> int:
        return self.steps * self.step.flop()

    def bytes_moved(self) -> None:
        """As for a step."""

    def bound(self) -> Bound:
        return self.step.bound()

    def memory_bytes(self) -> int:
        return self.step.memory_bytes() + (BATCHES + self._held_out_batches()) * self._batch_bytes()

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """Means over seeds, and standard deviations, which one seed alone has none of."""
        found = measured.learnt
        accuracies = found.accuracies if found else None
        return {
            "last_loss": statistics.fmean(found.last_losses) if found else None,
            "loss_deviation": _deviation(found.last_losses) if found else None,
            "accuracy_fraction": statistics.fmean(accuracies) if accuracies else None,
            "accuracy_deviation_fraction": _deviation(accuracies) if accuracies else None,
        }

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """What batches consist of, [batches, ...] each; then the same of those that are held out, if any are."""
        import numpy as np

        found = network(self.network)

        def several(count: int) -> list[Array]:
            batches = [found.learnable(rng, self.batch_size) for _ in range(count)]
            return [np.stack(parts) for parts in zip(*batches, strict=True)]

        return (*several(BATCHES), *several(self._held_out_batches()))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Exact:
        """int32[1]: 1, it has learnt."""
        import numpy as np

        return Exact(np.ones(1, np.int32))

    def tolerance(self) -> float:
        """It has learnt, or it has not."""
        return 0.0

    def _held_out_batches(self) -> int:
        return 0 if network(self.network).classes is None else -(-HELD_OUT // self.batch_size)

    def _batch_bytes(self) -> int:
        import numpy as np

        return self.batch_size * sum(each.nbytes for each in network(self.network).inputs(np.random.default_rng(0), 1))


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
