"""A Problem is one primitive at one size; a kernel is how one backend computes it.

Both register themselves when their file is imported: of a folder in ``kernels/``, or one file there. The command line,
``primbench list`` and the conformance test are derived from what is registered here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from primbench.errors import InvalidField

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from primbench.measurement import Measurement, Samples

    Array = np.ndarray[Any, np.dtype[Any]]


Value = int | float | str | bool
Work = Literal["kernel", "copy", "collective", "launch"]
"""What a call spends its time on."""
LARGEST = 2**63 - 1  # number that every reader of JSON holds as one


Step = Callable[[], Any]
"""Enqueues the work once and returns the output. Allocates and waits for nothing.

The output is an array of the backend, a host array, or where it is neither, an object that can poison() and get()
itself as a backend does its arrays.
"""


Setup = Callable[..., Step]
"""``setup(backend, problem, *inputs) -> step``; the inputs are already arrays of the backend."""


@dataclass(frozen=True)
class Reference:
    """What a right output looks like, for all of it or for a sample.

    index: selects the compared part of the output (``...`` for all of it).
    expected: float64, of the shape that ``output[index]`` has.
    scale: float64, same shape: the error of each element is divided by it before it meets the tolerance.
    """

    index: Any
    expected: Array
    scale: Array


class Bound(NamedTuple):
    """What a problem cannot be faster than. rate: of Measurement, that is limited.

    by: a dtype, whose arithmetic in a math mode limits it, or a path of data ("h2d", "d2h", "d2d", "h2h").
    """

    rate: Literal["flop_per_s", "bytes_per_s"]
    by: str
    math_mode: str = ""


class Problem(ABC):
    """One primitive at one size. A subclass is a frozen dataclass; its fields are the options and columns.

    >>> @dataclass(frozen=True)
    ... class Scale(Problem, name="scale"):
    ...     n: int = size("elements")
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]  # which every subclass has
    primitive: ClassVar[str]
    example_sizes: ClassVar[tuple[tuple[int, ...], ...]] = ()
    """Values of the size fields that the conformance test takes in place of its own, where those make no problem."""
    check_again: ClassVar[bool] = False
    """Whether the output is compared once more after it was timed: for copies, which may go wrong only at speed."""
    cpu_backend: ClassVar[str | None] = None
    """The backend that serves a CPU where none is named; the best one installed where this is None."""
    on_gpus: ClassVar[bool] = True
    """Whether a GPU can take part; where it cannot, a run that names no device is on the CPU."""
    work: ClassVar[Work] = "kernel"
    margin: ClassVar[float] = 0.01
    """Share by which its own time may differ between two places without mattering; times of the host have another."""
    preferred: ClassVar[tuple[str, ...]] = ()
    """Metrics by which it is compared before all others, the first one that was measured."""
    has_tails: ClassVar[bool] = False
    """Whether rare slow calls are themselves a finding: metrics beside the main one then have 10000 samples."""

    def __init_subclass__(cls, *, name: str) -> None:
        if name in PROBLEMS and PROBLEMS[name].__module__ != cls.__module__:
            raise TypeError(f"primitive {name!r} is defined in {PROBLEMS[name].__module__} and {cls.__module__}")
        cls.primitive = name
        PROBLEMS[name] = cls

    def __post_init__(self) -> None:
        """Raises InvalidField for what no field of this kind, or no such problem, can be."""
        for field in fields_of(self):
            _check(self, field)
        self.settle()

    def settle(self) -> None:  # noqa: B027 - most fields mean nothing to each other
        """Fill in what fields leave to others by object.__setattr__, and raise InvalidField where two do not agree.

        Each by itself is of its type by then, one of its choices, and within its limits.
        """

    def flop(self) -> int | None:
        """Floating-point (or integer) operations of one call; None where no count makes sense."""
        return None

    @abstractmethod
    def bytes_moved(self) -> int | None:
        """Fewest bytes one call reads and writes: each input once, each output once; None where it is not a matter."""

    def bound(self) -> Bound | None:
        """The arithmetic of its dtype; None where no operations are counted."""
        fields = self.parameters()
        if self.flop() is None or "dtype" not in fields:
            return None
        return Bound("flop_per_s", str(fields["dtype"]), str(fields.get("math_mode", "ieee")))

    def one_launch(self) -> Literal["dispatch", "empty kernel"] | None:
        """What a call launches where that is all it does: by the framework's own way, or nothing but a kernel."""
        return None

    def system_calls(self) -> tuple[str, ...]:
        """Those that every call makes, where they are what it spends its time on."""
        return ()

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """Further columns that follow from what was measured, by name; the name ends in its unit.

        ``_s`` is seconds, ``_bytes_per_s`` a rate, ``_fraction`` a share, anything else a count. Every problem of a
        primitive gives the same names, whatever was measured.
        """
        return {}

    def memory_bytes(self) -> int:
        """Device memory that one set of inputs and outputs takes."""
        return self.bytes_moved() or 0

    @abstractmethod
    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Host arrays, random in every dtype, from ``rng`` alone."""

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """What the kernel is checked on: ``inputs`` themselves, or others on which a reference can be afforded.

        Others are for outputs of which no sample can be computed from the timed inputs. The kernel is then set up a
        second time, for the check alone, so that ``check_again`` does not go with them.
        """
        return inputs

    @abstractmethod
    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """The output in float64, or a sample of it drawn with ``rng`` where all of it is too slow.

        Raises Unverifiable where a call leaves nothing behind that could be compared.
        """

    @abstractmethod
    def tolerance(self) -> float:
        """Largest allowed ``|output - expected| / scale``."""

    def on(self, device: str) -> Problem:
        """This problem with what it leaves to the kind of device filled in. device: "cpu" or "cuda:N"."""
        return self

    def probe(self, flop: int) -> Problem | None:
        """A smaller problem of the same kind, of about ``flop`` operations, whose speed foretells this one's cost.

        None where this one is not much larger, or cannot be foretold.
        """
        return None

    def parameters(self) -> dict[str, Value]:
        """The fields as they stand in a record."""
        return {field.name: getattr(self, field.name) for field in fields_of(self)}


PROBLEMS: dict[str, type[Problem]] = {}  # by name; primbench.registry looks them up


KERNELS: dict[tuple[str, str], Setup] = {}


def fields_of(problem: Problem | type[Problem]) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a primitive."""
    return dataclasses.fields(problem)


def size(help: str, unit: Literal["", "B"] = "", default: int | None = None) -> Any:  # noqa: A002 - as the option
    """A dimension: a whole number of at least 1, required where it has no default.

    One in bytes is read and shown with its unit, as 4KiB.
    """
    metadata = {"help": help, "size": True, "unit": unit, "least": 1}
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def option(
    default: Value,
    help: str,  # noqa: A002
    choices: Sequence[str] = (),
    *,
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """A field with a default, of the type of that. A bool becomes a flag; least and most are the limits of a number."""
    metadata = {"help": help, "choices": tuple(choices), "least": least, "most": most}
    return dataclasses.field(default=default, metadata=metadata)


def _check(problem: Problem, field: dataclasses.Field[Any]) -> None:
    """Raise InvalidField unless the value is one that the field can have; a whole number becomes a float."""
    value: Any = getattr(problem, field.name)
    kind = int if field.metadata.get("size") else type(field.default)
    if type(value) is int and abs(value) > LARGEST:
        raise InvalidField(f"{problem.primitive} {field.name}: a number of {value.bit_length()} bits, 63 are the most")
    if kind is float and type(value) is int:
        value = float(value)
        object.__setattr__(problem, field.name, value)
    fits = type(value) is kind and _is_within(value, field)
    if not fits:
        raise InvalidField(f"{problem.primitive} {field.name}={value!r}: {_expected(kind, field)}")


def _is_within(value: Any, field: dataclasses.Field[Any]) -> bool:
    choices = field.metadata.get("choices")
    if isinstance(value, str):
        return not choices or value in choices
    if isinstance(value, bool):
        return True
    least, most = _limits(field)
    return math.isfinite(value) and least <= value <= most


def _expected(kind: type, field: dataclasses.Field[Any]) -> str:
    if kind is bool:
        return "True or False"
    if kind is str:
        choices = field.metadata.get("choices")
        return f"one of {', '.join(map(str, filter(None, choices)))}" if choices else "a text"
    noun = {int: "a whole number", float: "a finite number"}[kind]
    least, most = _limits(field)
    if least == -math.inf:
        return noun
    return f"{noun} of at least {least}" if most == math.inf else f"{noun} from {least} to {most}"


def _limits(field: dataclasses.Field[Any]) -> tuple[float, float]:
    least, most = (field.metadata.get(name) for name in ("least", "most"))
    return -math.inf if least is None else least, math.inf if most is None else most


def kernel(primitive: str, *backends: str) -> Callable[[Setup], Setup]:
    """Register ``setup(backend, problem, *inputs) -> step`` for a primitive on one or more backends."""

    def register(setup: Setup) -> Setup:
        for backend in backends:
            there = KERNELS.get((primitive, backend))
            if there is not None and there.__module__ != setup.__module__:
                raise TypeError(f"{primitive} on {backend} is registered in {there.__module__} and {setup.__module__}")
            KERNELS[primitive, backend] = setup
        return setup

    return register


class Description(NamedTuple):
    """What a step says of itself.

    algorithm: which way the library took, as the record shows it. others: by name, what takes each of
    ``Measurement.others``; refused_calls: what takes that of Measurement. Both get the Method and the clock.
    stream_only: its device time is that of calls that follow one another on a stream, which a graph would send another
    way. host_buffers: host arrays that its calls read or write, each with the memory node it is to be on or None; None
    where these are its inputs and its output.
    """

    algorithm: str | None = None
    others: Mapping[str, Callable[..., Samples]] = {}
    refused_calls: Callable[..., dict[str, int]] | None = None
    stream_only: bool = False
    host_buffers: Sequence[tuple[Array, int | None]] | None = None


def described(step: Step, **fields: Any) -> Step:
    """The step, its Description changed in some fields. It stays a plain function: a call costs nothing more."""
    described: Any = step if hasattr(step, "__dict__") else functools.partial(step)  # as a built-in function has none
    described.description = description_of(step)._replace(**fields)
    return cast("Step", described)


def description_of(step: Step) -> Description:
    """Empty for a step of which nothing was said."""
    found: Description = getattr(step, "description", Description())
    return found
