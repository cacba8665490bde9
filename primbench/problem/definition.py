"""The class that every primitive derives from, and what registers primitives and their kernels."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from primbench.errors import InvalidRequest
from primbench.problem.fields import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from primbench.devices import Device
    from primbench.dtypes import Array
    from primbench.measurement import Measurement
    from primbench.problem.fields import Value
    from primbench.problem.steps import Setup

Work = Literal["kernel", "copy", "collective", "launch", "start-up", "data loading"]
"""What a call spends its time on."""


class Reference(NamedTuple):
    """What a right output looks like, for all of it or for a sample."""

    index: Any
    """Selects the compared part of the output (``...`` for all of it)."""
    expected: Array
    """Float64, of the shape that ``output[index]`` has."""
    scale: Array
    """Float64, same shape: the error of each element is divided by it before it meets the tolerance."""


class Exact(NamedTuple):
    """An output of which no element may differ."""

    expected: Array
    """The output in its type, once, where it repeats that."""


class Bound(NamedTuple):
    """What a problem cannot be faster than."""

    rate: Literal["flop_per_s", "bytes_per_s"]
    """Rate of Measurement that is limited."""
    by: str
    """A dtype, whose arithmetic in a math mode limits it, or a path of data ("h2d", "d2h", "d2d", "h2h")."""
    math_mode: str = ""


MEMORY = Bound("bytes_per_s", "d2d")
"""The bound of what computes little for each byte: a device's own memory, which a copy within it reads and writes."""


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
    example_fields: ClassVar[Mapping[str, Value]] = MappingProxyType({})
    """Other fields that the conformance test gives, such as required ones."""
    check_again: ClassVar[bool] = False
    """Whether the output is compared once more after it was timed: for copies, which may go wrong only at speed."""
    cpu_backend: ClassVar[str | None] = None
    """The backend that serves a CPU where none is named; the best one installed where this is None."""
    on_gpus: ClassVar[bool] = True
    """Whether a GPU can take part; where it cannot, a run that names no device is on the CPU."""
    sees_gpus: ClassVar[bool] = False
    """Whether processes that it starts may use GPUs, so that containers are handed them though the case is a CPU's."""
    tokens_field: ClassVar[str | None] = None
    """The field that says how many tokens a step takes in that makes such a call; None where none does."""
    before: ClassVar[Mapping[str, Callable[[Device], Value]]] = MappingProxyType({})
    """Field -> what was so of a case on a device before there was that field, for results that were kept then."""
    work: ClassVar[Work] = "kernel"
    margin: ClassVar[float] = 0.01
    """What own_margin() is, unless it depends on the problem's sizes."""
    preferred: ClassVar[tuple[str, ...]] = ()
    """Metrics by which it is compared before all others, the first one that was measured."""
    has_tails: ClassVar[bool] = False
    """Whether rare slow calls are themselves a finding: metrics beside the main one then have 10000 samples."""
    set_up_s: ClassVar[tuple[float, float]] = (0.1, 0.3)
    """About what a case takes besides sampling, in seconds on a CPU and on a GPU: as in the kept results files."""

    def __init_subclass__(cls, *, name: str = "") -> None:
        """name: of the primitive; a class that only others derive from has none."""
        if not name:
            return
        if name in PROBLEMS and PROBLEMS[name].__module__ != cls.__module__:
            raise TypeError(f"primitive {name!r} is defined in {PROBLEMS[name].__module__} and {cls.__module__}")
        cls.primitive = name
        PROBLEMS[name] = cls

    def __post_init__(self) -> None:
        """Raises InvalidField for what no field of this kind, or no such problem, can be."""
        for field in fields_of(self):
            value = checked(self.primitive, field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
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

    def why_alone(self) -> str | None:
        """Why processes that time it cannot take turns: what goes on between calls; None where nothing does."""
        return None

    def unfed(self) -> Problem | None:
        """The same on data that are there already, where each call copies its own first; None where none does."""
        return None

    def one_launch(self) -> Literal["dispatch", "empty kernel"] | None:
        """What a call launches where that is all it does: by the framework's own way, or nothing but a kernel."""
        return None

    def folder(self) -> str | None:
        """Where the files are that it goes through; None where there are none, or they are made in TMPDIR."""
        return None

    def system_calls(self) -> tuple[str, ...]:
        """Names of the system calls that a call spends its time on; () for most primitives."""
        return ()

    def system_call_count(self) -> int | None:
        """How many system calls one call makes at most; None where that is not known."""
        return None

    def opened_files(self) -> int | None:
        """How many files one call opens at most; None where that is not known."""
        return None

    def library_calls(self) -> int | None:
        """How many calls of its library one call makes; None where that depends on the backend."""
        return None

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """Further columns that follow from what was measured, by name; the name ends in its unit.

        ``_s`` is seconds, ``_bytes_per_s`` a rate, ``_bytes`` an amount, ``_fraction`` a share, anything else a count.
        Every problem of a primitive gives the same names, whatever was measured.
        """
        return {}

    def memory_bytes(self) -> int:
        """Device memory that one set of inputs and outputs takes."""
        return self.bytes_moved() or 0

    @abstractmethod
    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Host arrays, random in every dtype, from ``rng`` alone."""

    def laid_out(self, number: int, array: Any) -> Any:
        """What lies on the device as input ``number`` once ``array``, of ``inputs()``, has been brought there: itself,
        or what a kernel would make of it anyway, which is then made once where several calls share it.
        """
        return array

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """What the kernel is checked on: ``inputs`` themselves, or others on which a reference can be afforded.

        Others are for outputs of which no sample can be computed from the timed inputs. The kernel is then set up a
        second time, for the check alone, so that ``check_again`` does not go with them.
        """
        return inputs

    @abstractmethod
    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference | Exact:
        """The output in float64, or a sample of it drawn with ``rng`` where all of it is too slow."""

    def why_unverifiable(self) -> str | None:
        """Why a call leaves nothing behind that could be compared; None where it does."""
        return None

    @abstractmethod
    def tolerance(self) -> float:
        """Largest allowed ``|output - expected| / scale``."""

    def own_margin(self) -> float:
        """Share by which its own time may differ between places without mattering; times of the host have another."""
        return self.margin

    def on(self, device: Device) -> Problem:
        """This problem with what it leaves to the kind of device filled in."""
        return self

    def probe(self, flop: int) -> Problem | None:
        """A smaller problem of the same kind, of about ``flop`` operations, whose speed foretells this one's cost.

        None where this one is not much larger, or cannot be foretold.
        """
        return None

    @classmethod
    def completed(cls, parameters: dict[str, Value], device: Device) -> dict[str, Value]:
        """The parameters of a kept case on a device, with what was so of it before there was a field for that."""
        lacking = {name: was for name, was in cls.before.items() if name not in parameters}
        return parameters | {name: was(device) for name, was in lacking.items()} if lacking else parameters

    def parameters(self) -> dict[str, Value]:
        """The fields as they stand in a record."""
        return {field.name: getattr(self, field.name) for field in fields_of(self)}


def checked_problem(found: object) -> Problem:
    """What a caller gave as a problem. Raises InvalidRequest where it is none."""
    if not isinstance(found, Problem):
        raise InvalidRequest(f"{found!r:.60}: not a problem, such as Gemm(256, 256, 256) of primbench.kernels.gemm")
    return found


PROBLEMS: dict[str, type[Problem]] = {}  # by name; primbench.registry looks them up
KERNELS: dict[tuple[str, str, str], Setup] = {}
"""By primitive, backend, and the kernel's name among those that the backend has; "" is its usual one."""


def fields_of(problem: Problem | type[Problem]) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a primitive."""
    return _fields(problem if isinstance(problem, type) else type(problem))


@functools.cache  # problems are made of every record of a file, again and again
def _fields(kind: type[Problem]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def kernel(primitive: str, *backends: str, name: str = "") -> Callable[[Setup], Setup]:
    """Register ``setup(backend, problem, *inputs) -> step`` for a primitive on one or more backends.

    name: of one beside the usual one, which is measured where it is asked for by ``--kernel``.
    """

    def register(setup: Setup) -> Setup:
        for backend in backends:
            key = (primitive, backend, name)
            there = KERNELS.get(key)
            if there is not None and there.__module__ != setup.__module__:
                what = " ".join(filter(None, (primitive, "on", backend, name)))
                raise TypeError(f"{what} is registered in {there.__module__} and {setup.__module__}")
            KERNELS[key] = setup
        return setup

    return register
