from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from primbench import problem, registry
from primbench.errors import InvalidField, InvalidRequest, UnsupportedCase
from primbench.measurement import Measurement, Samples
from primbench.problem import Problem, Reference, Step, kernel, option, size
from primbench.registry import build

if TYPE_CHECKING:
    import numpy as np


def shipped() -> set[tuple[str, str, str]]:
    return {
        (primitive, backend, name)
        for primitive in registry.primitives()
        for backend in registry.backends_of(primitive)
        for name in registry.kernels_of(primitive, backend)
    }


@pytest.fixture(autouse=True)
def registers() -> Iterator[None]:
    """What these tests register is forgotten after each."""
    for each in shipped():
        registry.setup_of(*each)
    problems, kernels = dict(problem.PROBLEMS), dict(problem.KERNELS)
    yield
    problem.PROBLEMS.clear()
    problem.PROBLEMS.update(problems)
    problem.KERNELS.clear()
    problem.KERNELS.update(kernels)


def define(name: str = "scale") -> type[Problem]:
    @dataclass(frozen=True)
    class Scale(Problem, name=name):
        """y = a x."""

        n: int = size("elements")
        dtype: str = option("float32", "storage type", ("float32", "float64"))
        factor: float = option(2.0, "factor")
        inverse: bool = option(False, "divide instead")

        def bytes_moved(self) -> int:
            return 8 * self.n

        def inputs(self, rng: np.random.Generator) -> tuple[Any, ...]:
            return (rng.random(self.n),)

        def reference(self, rng: np.random.Generator, *inputs: Any) -> Reference:
            return Reference(..., 2 * inputs[0], inputs[0])

        def tolerance(self) -> float:
            return 1e-6

    return Scale


def test_a_class_is_a_primitive_by_being_defined() -> None:
    scale = define()
    assert registry.primitives()["scale"] is scale
    assert scale.primitive == "scale"


def test_a_kernel_is_found_by_its_pair() -> None:
    define()

    @kernel("scale", "numpy", "torch")
    def setup(backend: Any, asked: Any, x: Any) -> Step:
        return lambda: x

    assert registry.backends_of("scale") == ["numpy", "torch"]
    assert registry.setup_of("scale", "torch") is setup
    with pytest.raises(UnsupportedCase, match="'cupy': it has numpy, torch"):
        registry.setup_of("scale", "cupy")


def test_the_folder_of_kernels_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.scandir", lambda *given: pytest.fail("a suite has 2000 problems"))
    assert "gemm" in registry.primitives()


def test_every_primitive_has_a_kernel() -> None:
    assert [] == [name for name in registry.primitives() if not registry.backends_of(name)]


def test_what_the_text_of_a_folder_says_of_backends_is_what_importing_it_registers() -> None:
    assert set(problem.KERNELS) == shipped()


def test_two_files_may_not_define_one_primitive_or_kernel() -> None:
    define()
    foreign = type("foreign", (), {"__module__": "elsewhere"})
    problem.PROBLEMS["scale"] = foreign
    with pytest.raises(TypeError, match="elsewhere and"):
        define()
    problem.KERNELS["scale", "numpy", ""] = foreign
    with pytest.raises(TypeError, match="elsewhere and"):
        kernel("scale", "numpy")(lambda: lambda: None)


def test_a_backend_may_have_several_kernels_by_name() -> None:
    define()
    usual, other = (kernel("scale", "numpy", name=name)(lambda: lambda: None) for name in ("", "tiled"))
    assert (usual, other) == (registry.setup_of("scale", "numpy"), registry.setup_of("scale", "numpy", "tiled"))
    assert (["numpy"], ["", "tiled"]) == (registry.backends_of("scale"), registry.kernels_of("scale", "numpy"))
    with pytest.raises(UnsupportedCase, match="scale has no kernel 'tile' for backend 'numpy': did you mean tiled"):
        registry.setup_of("scale", "numpy", "tile")
    with pytest.raises(UnsupportedCase, match="scale has no kernel for backend 'torch': it has numpy"):
        registry.setup_of("scale", "torch", "tiled")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "scale needs n"),
        ({"n": 3, "q": 1}, "no field 'q': its fields are n, dtype, factor, inverse"),
        ({"n": 2.0}, "n=2.0: a whole number of at least 1"),
        ({"n": True}, "n=True: a whole number of at least 1"),
        ({"n": 2, "dtype": "float16"}, "one of float32, float64"),
        ({"n": 2, "inverse": 1}, "inverse=1: True or False"),
        ({"n": 2, "factor": "3"}, "factor='3': a finite number"),
    ],
)
def test_build_names_the_field_that_is_wrong(fields: dict[str, Any], message: str) -> None:
    define()
    with pytest.raises(InvalidRequest, match=message):
        build("scale", fields)


def test_a_default_is_one_of_its_choices() -> None:
    with pytest.raises(
        InvalidField, match=r"^option\('type', 'float32'\): the default comes first, and is one of \('f"
    ):
        option("type", "float32", ("float32", "float64"))


def test_a_whole_number_for_a_float_becomes_one() -> None:
    define()
    factor = build("scale", {"n": 2, "factor": 3}).parameters()["factor"]
    assert (3.0, float) == (factor, type(factor))


WRONG: dict[type, list[Any]] = {
    int: [1.5, 2.0, True, "1", None, -2, 2**63, 10**5000],
    float: ["1", True, None, math.nan, math.inf, 2**63],
    bool: [0, 1, "yes", None],
    str: [3, True, None, ["float32"], "FLOAT32"],
}


def sizes_of(cls: type[Problem]) -> list[str]:
    return [each.name for each in problem.fields_of(cls) if each.metadata.get("size")]


def right_fields(cls: type[Problem]) -> dict[str, Any]:
    sizes = zip(sizes_of(cls), itertools.cycle(next(iter(cls.example_sizes), (8,))), strict=False)
    return {**dict(sizes), **cls.example_fields}


@pytest.mark.parametrize("primitive", registry.primitives())
def test_every_field_is_checked_whoever_makes_the_problem(primitive: str) -> None:
    cls = registry.primitives()[primitive]
    sizes, right = sizes_of(cls), right_fields(cls)
    for field in problem.fields_of(cls):
        kind = int if field.name in sizes else str if "names" in field.metadata else type(field.default)
        is_free = kind is str and not field.metadata.get("choices", field.metadata.get("names"))
        for wrong in WRONG[kind][: -1 if is_free else None]:
            with pytest.raises(InvalidField, match=rf"^{primitive} {field.name}[=:]"):
                cls(**right | {field.name: wrong})


def test_no_figure_is_over_a_time_that_the_clock_did_not_see() -> None:
    unseen = Samples(samples_s=[0.0], calls_per_sample=1, taken_by="a coarse clock", stopped="count")
    measured = Measurement(
        batch_s=unseen, device_s=unseen, stream_s=unseen, wall_s=unseen, enqueue_single_s=unseen,
        others=dict.fromkeys(("h2d_s", "d2h_s", "data_wait_s", "with_allreduce_s", "without_allreduce_s"), unseen),
    )  # fmt: skip
    for cls in registry.primitives().values():
        made = cls(**right_fields(cls))
        found = made.figures(measured)
        assert found.keys() == made.figures(Measurement()).keys()
        assert {0.0} >= {each for each in found.values() if each is not None}, made


def test_an_unknown_primitive_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match=r"'gemn': did you mean gemm\? there are .*gemm"):
        registry.problem_class("gemn")


def test_a_primitive_without_a_reference_cannot_be_built() -> None:
    @dataclass(frozen=True)
    class Half(Problem, name="half"):
        n: int = size("elements")

    with pytest.raises(TypeError, match="abstract"):
        build("half", {"n": 1})
