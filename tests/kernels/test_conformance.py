"""Every registered (primitive, backend) pair against the float64 reference, on every kind of device it can reach.

A new file in kernels/ is covered by being there: the problems are made from the fields.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from primbench.backends import Backend, devices_of, missing, names, open_backend
from primbench.devices import Device
from primbench.environment.devices import has_gpu_node
from primbench.errors import BackendUnavailable, InvalidRequest, KernelUnavailable, UnsupportedCase
from primbench.problem import Exact, Problem, Reference, description_of, fields_of
from primbench.registry import backends_of, build, kernels_of, primitives, setup_of
from primbench.timing.verify import check_output

EVEN = (96, 80, 64, 48, 32)
RAGGED = (133, 65, 77, 19, 11)
ONES = (1, 1, 1, 1, 1)


def examples(cls: type[Problem], device: Device) -> Iterator[Problem]:
    """Sizes that suit tiles, sizes that do not, sizes of 1; then each option's every value, by itself and in pairs."""
    fields = fields_of(cls)
    names_of_sizes = [field.name for field in fields if field.metadata.get("size")]
    options = [field for field in fields if field.name not in (*names_of_sizes, *cls.example_fields)]
    variations = [{}, *({field.name: value} for field in options for value in values_of(field))]
    pairs = [one | other for one, other in itertools.combinations(variations, 2)]
    first, *others = cls.example_sizes or (EVEN, RAGGED, ONES)
    for sizes in (first, *others):
        for chosen in variations if sizes is not first else {str(o): o for o in [*variations, *pairs]}.values():
            try:
                given: dict[str, Any] = dict(zip(names_of_sizes, itertools.cycle(sizes), strict=False))
                given = {**given, **cls.example_fields, **chosen}
                yield build(cls.primitive, given).on(device)
            except InvalidRequest:
                continue  # two options that exclude each other


def values_of(field: dataclasses.Field[Any]) -> list[Any]:
    if isinstance(field.default, bool):
        return [not field.default]
    if isinstance(field.default, float):
        return [field.default + 0.5]
    if isinstance(field.default, int):
        return [field.default + 1]
    return [choice for choice in field.metadata.get("choices", ()) if choice and choice != field.default]


PLACES = [
    (primitive, backend, kind)
    for primitive in primitives()
    for backend in backends_of(primitive)
    for kind in devices_of(backend)
    if kind == "cpu" or primitives()[primitive].on_gpus
]
on_every_place = pytest.mark.parametrize(
    ("primitive", "name", "kind"),
    [
        pytest.param(*place, id="-".join(place), marks=[] if place[1] == "numpy" else pytest.mark.wheel)
        for place in PLACES
    ],
)


def inputs_of(problem: Problem, rng: np.random.Generator) -> tuple[Any, ...]:
    return problem.check_inputs(rng, problem.inputs(rng))


@functools.cache  # the backends of a kind of device have the same problems
def reference_of(problem: Problem) -> Reference | Exact | None:
    rng = np.random.default_rng(7)
    return None if problem.why_unverifiable() else problem.reference(rng, *inputs_of(problem, rng))


@pytest.fixture(scope="module")
def backends() -> Iterator[dict[tuple[str, str], Backend]]:
    opened: dict[tuple[str, str], Backend] = {}
    yield opened
    for backend in opened.values():
        backend.close()


def backend_or_skip(backends: dict[tuple[str, str], Backend], name: str, kind: str) -> Backend:
    if (reason := missing(name)) is not None:
        pytest.skip(reason)
    if kind == "cuda" and not has_gpu_node():
        pytest.skip(f"{name} on cuda needs an NVIDIA GPU: no /dev/nvidia* here")
    if (name, kind) not in backends:
        backends[name, kind] = open_backend(name, "cuda:0" if kind == "cuda" else "cpu")
    return backends[name, kind]


@on_every_place
def test_outputs_agree_with_the_reference(
    primitive: str, name: str, kind: str, backends: dict[tuple[str, str], Backend], subtests: pytest.Subtests
) -> None:
    """In two calls, both after poisoning: that a sum has the same order in both is no backend's promise.

    In one where each is a process of its own, to which no call before it leaves anything.
    """
    backend = backend_or_skip(backends, name, kind)
    supported = 0
    for problem in examples(primitives()[primitive], backend.device):
        with subtests.test(problem=str(problem)):
            inputs = inputs_of(problem, np.random.default_rng(7))
            try:
                step = setup_of(primitive, name)(backend, problem, *map(backend.put, inputs))
            except UnsupportedCase:
                continue
            supported += 1
            if (reference := reference_of(problem)) is None:
                continue
            for _ in range(1 if description_of(step).is_process else 2):
                assert check_output(backend, problem, step, reference) <= problem.tolerance()
    assert supported >= (1 if primitives()[primitive].example_sizes == ((),) else 2)


@on_every_place
def test_the_default_problem_is_supported(
    primitive: str, name: str, kind: str, backends: dict[tuple[str, str], Backend]
) -> None:
    backend = backend_or_skip(backends, name, kind)
    problem = next(examples(primitives()[primitive], backend.device))
    inputs = problem.inputs(np.random.default_rng(7))
    setup_of(primitive, name)(backend, problem, *map(backend.put, inputs))


BESIDE = [
    (primitive, backend, kind, kernel)
    for primitive, backend, kind in PLACES
    for kernel in kernels_of(primitive, backend)
    if kernel
]


@pytest.mark.wheel
@pytest.mark.filterwarnings("default")  # torch warns of its own code while it compiles
@pytest.mark.parametrize(("primitive", "name", "kind", "kernel"), BESIDE, ids=map("-".join, BESIDE))
def test_a_kernel_beside_the_usual_one_agrees_with_the_reference(
    primitive: str, name: str, kind: str, kernel: str, backends: dict[tuple[str, str], Backend]
) -> None:
    """In the first problem that it serves: torch.compile takes seconds for each.

    It imports distutils, which setuptools, by which other tests of this process build wheels, wants to be there before.
    """
    pytest.importorskip("setuptools", reason="setuptools is not installed, and comes with torch")
    backend = backend_or_skip(backends, name, kind)
    for problem in examples(primitives()[primitive], backend.device):
        inputs = inputs_of(problem, np.random.default_rng(7))
        try:
            step = setup_of(primitive, name, kernel)(backend, problem, *map(backend.put, inputs))
        except KernelUnavailable as reason:
            pytest.skip(str(reason))
        except UnsupportedCase as reason:
            refused = str(reason)
            continue
        reference = reference_of(problem)
        assert reference is not None
        assert check_output(backend, problem, step, reference) <= problem.tolerance()
        return
    pytest.fail(f"it serves none of the examples: {refused}")


def test_every_backend_with_a_kernel_has_a_file() -> None:
    assert {name for _, name, _ in PLACES} <= set(names())


def test_a_backend_refuses_a_device_it_cannot_reach() -> None:
    with pytest.raises(BackendUnavailable, match="runs on cpu only"):
        open_backend("numpy", "cuda:0")
