"""Function: one of a file of Python, called again and again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidField
from primbench.kernels.time._named import NONE, expected_of, split, values_of
from primbench.problem import Problem, Reference, named, option
from primbench.timing.function import reference_of

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array


@dataclass(frozen=True)
class Function(Problem, name="time"):
    """Any function of a file of Python, FILE.py::FUNCTION, as it stands there.

    NAME is FILE.py::FUNCTION. It is called with what `--setup FILE.py::FUNCTION` returns, a tuple of arguments, which
    is made once for each set of inputs, before anything is timed. Where it takes none, leave that out.

    --arguments n=1024,dtype=float16 are passed by name: to the setup, where there is one, else to the function. Given
    several times, each is a row.

    With --like FILE.py::FUNCTION its output, an array or a tuple of arrays, is compared with what that other function
    returns for inputs that are made in the same way, with the same seeds of random, NumPy and torch: within 1e-4 of the
    largest element in float32, 1e-2 in float16, 2e-2 in bfloat16, 1e-10 in float64; integers have to be equal. Each
    call finds the output of the last one overwritten, so that one who returns what it has kept is found out.
    """

    function: str = named("what is called, as FILE.py::FUNCTION", tuple)
    arguments: str = option(NONE, "by name, as n=1024,dtype=float16")
    setup: str = option("", "what makes the function's arguments, as FILE.py::FUNCTION")
    like: str = option("", "a function whose output this one's has to equal, as FILE.py::FUNCTION")

    check_again = True  # as it may skip work that it did where it was checked
    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType({"function": f"{os.path.dirname(__file__)}/_example.py::add"})

    def settle(self) -> None:
        for name in ("function", "setup", "like"):
            if word := getattr(self, name):
                file, function = split(word)
                if not file.endswith(".py") or not function.isidentifier():
                    raise InvalidField(f"time {name}={word}: FILE.py::FUNCTION")
                object.__setattr__(self, name, f"{os.path.abspath(file)}::{function}")
        values_of(self.arguments)

    def bytes_moved(self) -> None:
        """Nobody says what it moves."""

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """None: its setup makes them, where they are wanted."""
        return ()

    def why_unverifiable(self) -> str | None:
        return None if self.like else "no function is named whose output it has to equal (--like FILE.py::FUNCTION)"

    def reference(self, rng: np.random.Generator, *inputs: Any) -> Reference:
        """What the other function returns."""
        return reference_of(expected_of(self.like, self.setup, self.arguments))

    def tolerance(self) -> float:
        """That of its type is in the scale."""
        return 1.0
