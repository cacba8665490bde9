"""The class that every whole model derives from: what it computes, what it is given, and how it is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from primbench.problem.patterns import LEARNING_BATCH, LEARNING_STEPS, PATTERNS, coarse, mixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from primbench.dtypes import Array
    from primbench.problem.examples import Examples

KINDS = 4  # so few that some hundred examples show each often enough


class Network(ABC):
    """A model as its original has it, in torch. Its file is imported where it is measured, and only there.

    >>> class Perceptron(Network, name="perceptron"):
    ...     \"\"\"Two dense layers.\"\"\"
    ...
    ...     batch_size = 64
    """

    name: ClassVar[str]
    batch_size: ClassVar[int]
    """The original's."""
    original: ClassVar[str]
    """Where it comes from: the code or the paper, and what is not as it is there."""
    classes: ClassVar[int | None] = None
    """Of which the labels name one, the last of the inputs; None where there are none to be right about."""
    checked_batch: ClassVar[int] = 2
    """Batch on which loss and gradients are compared with those in float64."""
    learning_batch: ClassVar[int] = LEARNING_BATCH
    """Batch with which it learns from learnable(): a small one, and one that the original's rate of learning bears."""
    learning_steps: ClassVar[int] = LEARNING_STEPS
    """Steps in which it learns from them."""
    autocast: ClassVar[bool] = True
    """Whether it works in 16 bits, too, by torch's autocast."""

    on_disk: ClassVar[Examples | None] = None
    """What examples are on disk; None where the original reads none, or the class does not say."""

    def __init__(self, *, draws: bool = True) -> None:
        """draws: whether a step draws random numbers as the original does, which another device draws otherwise.

        Where it does not, to be checked, dropout lets all through, and neither noise nor samples are drawn.
        """
        self.draws = draws

    def __init_subclass__(cls, *, name: str = "") -> None:
        if not name:  # what several have in common
            return
        if name in NETWORKS and NETWORKS[name].__module__ != cls.__module__:
            raise TypeError(f"model {name!r} is defined in {NETWORKS[name].__module__} and {cls.__module__}")
        if type(getattr(cls, "batch_size", None)) is not int or cls.batch_size < 1:
            raise TypeError(f"model {name!r}: its class has no line such as batch_size = 64")
        found = {f"{each}()": getattr(cls, each, None) for each in vars(Network)}
        if lacks := [each for each, method in found.items() if getattr(method, "__isabstractmethod__", False)]:
            raise TypeError(f"model {name!r}: its class has no {', '.join(lacks)}")
        cls.name = name
        NETWORKS[name] = cls

    @abstractmethod
    def module(self) -> Any:
        """The torch.nn.Module, on the CPU in float32, its weights drawn from torch's own generator."""

    @abstractmethod
    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """One batch as it comes from a data set, targets last: host arrays, of the original's shapes and lengths."""

    @property
    def kinds(self) -> int:
        """Patterns that learnable() has, each of a class of its own where there are classes."""
        return min(KINDS, self.classes or KINDS)

    def learnable(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """As inputs(), by a rule that training can find: each example is one of a few patterns, a quarter of it noise.

        The pattern alone says what the last of several inputs is: the class, one of the last ``kinds``, or a target.
        """
        import numpy as np

        patterns = [coarse(each) for each in self.inputs(np.random.default_rng(PATTERNS), self.kinds)]
        chosen, noise = rng.integers(0, self.kinds, batch_size), self.inputs(rng, batch_size)
        found = [mixed(rng, pattern[chosen], other) for pattern, other in zip(patterns, noise, strict=True)]
        if self.classes is not None:
            found[-1] = (self.classes - self.kinds + chosen).astype(found[-1].dtype)
        elif len(found) > 1:
            found[-1] = patterns[-1][chosen]
        return tuple(found)

    def right(self, predictions: Any, *inputs: Any) -> Any:
        """bool[batch]: of which examples predict() named the class, where there are classes."""
        return predictions.argmax(1) == inputs[-1]

    def checked_inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """A batch that can be afforded in float64 on a CPU, such as of shorter texts."""
        return self.inputs(rng, batch_size)

    @abstractmethod
    def predict(self, module: Any, *inputs: Any) -> Any:
        """What inference computes of a batch. It is given the targets as well, and need not look at them."""

    @abstractmethod
    def loss(self, module: Any, *inputs: Any) -> Any:
        """The scalar that training makes smaller."""

    @abstractmethod
    def optimiser(self, parameters: Iterable[Any]) -> Any:
        """A torch.optim.Optimizer with the original's settings."""

    def after_backward(self, module: Any) -> None:  # noqa: B027 - most do nothing there
        """What the original does to gradients before the optimiser takes them, such as clipping."""

    @abstractmethod
    def flop(self, batch_size: int) -> int:
        """Floating-point operations of one forward pass: 2 for each multiply-add of what has weights or attends."""


NETWORKS: dict[str, type[Network]] = {}  # by name; primbench.registry looks them up
