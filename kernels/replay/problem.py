"""Replay: the calls of a captured step, made again."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.kernels.replay._calls import Calls
from primbench.kernels.replay._calls import Part as Part
from primbench.kernels.replay._calls import decoded as decoded
from primbench.kernels.replay._calls import encoded as encoded
from primbench.problem import Problem, Reference, option
from primbench.registry import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from primbench.problem import Array, Value

Delayed = Literal["calls", "collectives"]
DELAYS_NS: dict[Delayed, tuple[int, ...]] = {
    "calls": (0, 1000, 2000, 4000), "collectives": (0, 100_000, 200_000, 400_000),
}  # fmt: skip
"""How much later each call of a step begins, or each that ranks make together: a dosed one is timed with each."""


def delayed(what: Delayed, delay_ns: int) -> str:
    """The name of the step's time with such a delay before each of them, in ``Measurement.others``."""
    return f"{'collectives_' * (what == 'collectives')}delayed_{delay_ns}ns_s"


class OtherWork(NamedTuple):
    """What is measured in a place, or done beside a step, by which its harm is told."""

    primitive: str
    fields: Mapping[str, Value]
    """Of its problem."""
    backend: str | None
    """None is the step's."""
    on_cpu: bool = True
    """Whether it is a CPU's, whatever the step is on; else on the step's device."""


CALL = OtherWork("launch", {}, None, on_cpu=False)
"""A call of an operator that has next to nothing to do."""
SMALL_SUM = OtherWork("allreduce", {"bytes": 2**13}, None, on_cpu=False)
"""What the step's ranks do together, and has next to nothing to move."""
PRODUCT = OtherWork("gemm", {"m": 512, "n": 512, "k": 512}, None)
"""Keeps all threads busy, from the caches."""
MEMORY_COPY = OtherWork("memcpy", {"bytes": 2**26, "direction": "h2h"}, "numpy")
"""By one thread, of more than caches hold."""
MEMORY_PROBE = MEMORY_COPY._replace(backend=None)
"""The same by the step's threads, so that the process that times the step times this, too."""
SYSTEM_CALL = OtherWork("launch", {"call": "getppid"}, "numpy")
"""Keeps one CPU busy, and moves next to nothing."""
COPY_TO_GPU = OtherWork("memcpy", {"bytes": 2**26, "direction": "h2d"}, None, on_cpu=False)
PRODUCT_ON_GPU = OtherWork("gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"}, None, on_cpu=False)
"""Keeps all multiprocessors busy."""


@dataclass(frozen=True)
class Replay(Problem, name="replay"):
    """All calls of operators of a captured step, one after the other, on tensors of the same shapes.

    `primbench bound` makes such cases of STEP.toml. Between the calls is a loop of Python, and not what the script did
    there. Each distinct call has one set of inputs, however often a step makes it. Calls that the backend does not have
    on the device are left out, and counted.

    With --dosed the step is timed with a busy wait of 0, 1, 2 and 4 us before each call, too, in turn; on a GPU before
    each call that launches something. Several ranks make all of its calls each; they time it with 0, 100, 200 and 400
    us before each collective, too, in which they give way to whoever wants their CPU.
    """

    calls: str = option("", "the step's calls, as `primbench bound` writes them", is_encoded=True)
    dosed: bool = option(False, "time it with a delay before each call, too")
    ranks: int = option(1, "processes that make it together, each with a GPU or CPU of its own", least=1)

    work = "kernel"
    margin = 0.05
    preferred = ("stream_s",)  # on a GPU: a graph does not tell of launches, nor of what holds them up
    set_up_s = (1.0, 2.0)
    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType({"calls": encoded([Part("elementwise", {"elements": 4096})], [0, 0])})

    def settle(self) -> None:
        _ = self.step

    @functools.cached_property
    def step(self) -> Calls:
        """What is called. Raises InvalidField where that cannot be read."""
        return decoded(self.calls)

    @functools.cached_property
    def problems(self) -> list[Problem]:
        """Of each part. Raises InvalidRequest where there is no such problem."""
        return [build(part.primitive, part.fields) for part in self.step.parts]

    def bytes_moved(self) -> None:
        """Not all of its calls know."""

    def memory_bytes(self) -> int:
        return sum(each.memory_bytes() for each in self.problems)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """None: each call makes its own."""
        return ()

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """None, either."""
        return ()

    def why_unverifiable(self) -> str:
        return "its calls are compared one by one, by `primbench explain`"

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        raise NotImplementedError  # as it is unverifiable

    def tolerance(self) -> float:
        """Nothing is compared."""
        return 0.0
