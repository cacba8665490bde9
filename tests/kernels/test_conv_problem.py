from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest
from primbench.kernels.conv import Conv, _reference
from primbench.kernels.conv._geometry import Axis
from primbench.registry import setup_of

DIRECTIONS = ("forward", "bwd_data", "bwd_weights")
LAYOUTS = ("nchw", "nhwc")

Index = tuple[int, ...]


def products(problem: Conv) -> Iterator[tuple[Index, Index, Index]]:
    """What meets in the definition, one by one: a pixel of X, a weight of W, an element of Y (n c h w)."""
    channels, filters = problem.c // problem.groups, problem.k // problem.groups
    extents = (problem.n, problem.k, problem.p, problem.q, channels, problem.r, problem.s)
    for n, k, p, q, c, r, s in itertools.product(*map(range, extents)):
        h = p * problem.stride_h + r * problem.dilation_h - problem.pad_h
        w = q * problem.stride_w + s * problem.dilation_w - problem.pad_w
        if 0 <= h < problem.h and 0 <= w < problem.w:
            yield (n, k // filters * channels + c, h, w), (k, c, r, s), (n, k, p, q)


@pytest.mark.parametrize(("direction", "layout"), list(itertools.product(DIRECTIONS, LAYOUTS)))
def test_reference_is_the_definition(geometry: dict[str, Any], direction: str, layout: str) -> None:
    problem = Conv(2, 3, 8, 7, 6, 3, 2, direction=direction, layout=layout, **geometry)
    inputs = problem.inputs(np.random.default_rng(0))
    first, second = (problem.as_nchw(array).astype(np.float64) for array in inputs)
    expected = np.zeros(problem.output_shape)
    for x, w, y in products(problem):
        target, a, b = {"forward": (y, x, w), "bwd_data": (x, y, w), "bwd_weights": (w, y, x)}[direction]
        problem.as_nchw(expected)[target] += first[a] * second[b]
    reference = problem.reference(np.random.default_rng(1), *inputs)
    assert expected.size == reference.expected.size
    np.testing.assert_allclose(expected[reference.index], reference.expected, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts(layout: str) -> None:
    conv = Conv(2, 4, 9, 8, 6, 3, 2, pad_h=1, stride_h=2, dilation_w=3, groups=2, dtype="float16", layout=layout)
    assert (5, 5) == (conv.p, conv.q)
    assert {2 * 2 * 6 * 5 * 5 * 2 * 3 * 2} == {
        Conv(2, 4, 9, 8, 6, 3, 2, 1, 0, 2, 1, 1, 3, 2, direction).flop() for direction in DIRECTIONS
    }
    assert conv.bytes_moved() == 2 * (2 * 4 * 9 * 8 + 6 * 2 * 3 * 2 + 2 * 6 * 5 * 5)
    assert replace(conv, dtype="int8").bytes_moved() == 2 * 4 * 9 * 8 + 6 * 2 * 3 * 2 + 4 * 2 * 6 * 5 * 5


def test_counts_are_those_of_deepbench() -> None:
    """Its first speech layer: 341 x 79 outputs, both rounded down."""
    conv = Conv(n=4, c=1, h=161, w=700, k=32, r=5, s=20, stride_h=2, stride_w=2)
    assert (79, 341, 689_638_400) == (conv.p, conv.q, conv.flop())


def test_stored_shapes_follow_layout_and_direction() -> None:
    shapes = {
        (direction, layout): [
            array.shape
            for array in Conv(2, 4, 9, 8, 6, 3, 1, groups=2, direction=direction, layout=layout).inputs(
                np.random.default_rng(0)
            )
        ]
        for direction, layout in itertools.product(DIRECTIONS, LAYOUTS)
    }
    assert shapes == {
        ("forward", "nchw"): [(2, 4, 9, 8), (6, 2, 3, 1)],
        ("forward", "nhwc"): [(2, 9, 8, 4), (6, 3, 1, 2)],
        ("bwd_data", "nchw"): [(2, 6, 7, 8), (6, 2, 3, 1)],
        ("bwd_data", "nhwc"): [(2, 7, 8, 6), (6, 3, 1, 2)],
        ("bwd_weights", "nchw"): [(2, 6, 7, 8), (2, 4, 9, 8)],
        ("bwd_weights", "nhwc"): [(2, 7, 8, 6), (2, 9, 8, 4)],
    }


def test_an_axis_joins_a_tap_with_what_lies_in_the_image() -> None:
    axis = Axis(image=5, taps=3, pad=2, stride=2, dilation=2)
    assert (5, 3) == (axis.reach, axis.outputs)
    assert (slice(1, 3), slice(0, 3, 2)) == axis.joined(0)
    assert (slice(0, 3), slice(0, 5, 2)) == axis.joined(1)
    assert (slice(0, 2), slice(2, 5, 2)) == axis.joined(2)
    assert (slice(0), slice(0)) == Axis(image=1, taps=1, pad=1, stride=2, dilation=1).joined(0)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_large_reference_is_sampled_inside_the_output(direction: str) -> None:
    conv = Conv(8, 64, 40, 40, 64, 3, 3, pad_h=1, pad_w=1, direction=direction, layout="nhwc")
    inputs = conv.inputs(np.random.default_rng(0))
    reference = conv.reference(np.random.default_rng(1), *inputs)
    assert 32 <= reference.expected.size < np.prod(conv.output_shape)
    output = setup_of("conv", "numpy")(open_backend("numpy", "cpu"), conv, *inputs)()
    np.testing.assert_allclose(output[reference.index], reference.expected, rtol=0, atol=1e-2)
    assert np.abs(reference.expected).max() > 5  # so two elements in the wrong order would differ


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_part_of_the_reference_is_that_part_of_it_all(
    monkeypatch: pytest.MonkeyPatch, direction: str, layout: str
) -> None:
    conv = Conv(3, 20, 17, 13, 24, 3, 5, pad_h=1, stride_h=2, dilation_w=2, direction=direction, layout=layout)
    inputs = [conv.as_nchw(each) for each in conv.inputs(np.random.default_rng(0))]
    monkeypatch.setattr(_reference, "MAX_PRODUCTS", 2**30)
    _, sums, norms = _reference.sampled(conv.geometry, np.random.default_rng(1), *inputs)
    monkeypatch.setattr(_reference, "MAX_PRODUCTS", 0)
    index, part, norms_of_part = _reference.sampled(conv.geometry, np.random.default_rng(1), *inputs)
    assert part.size < sums.size
    np.testing.assert_allclose(sums.reshape(conv.geometry.computed)[index], part, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(norms.reshape(conv.geometry.computed)[index], norms_of_part, rtol=1e-12)


def test_an_output_of_padding_alone_has_a_scale() -> None:
    conv = Conv(1, 2, 3, 3, 2, 1, 1, pad_h=1, pad_w=1)
    reference = conv.reference(np.random.default_rng(1), *conv.inputs(np.random.default_rng(0)))
    assert (0.0, True) == (reference.expected[0], bool(reference.scale.min() > 0))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_tolerance_lets_rounding_pass_and_nothing_else(direction: str) -> None:
    """The kernel's output is within it; with inputs rounded to 10 bits, as tf32 does, or one tap left out, not."""
    backend = open_backend("numpy", "cpu")
    conv = Conv(2, 32, 14, 14, 32, 3, 3, pad_h=1, pad_w=1, direction=direction)
    inputs = conv.inputs(np.random.default_rng(0))
    as_tf32 = replace(conv, math_mode="tf32")

    def error(changed: list[Any], judged_as: Conv = conv) -> float:
        reference = judged_as.reference(np.random.default_rng(1), *inputs)
        output = setup_of("conv", "numpy")(backend, conv, *changed)()
        return float((abs(output[reference.index] - reference.expected) / reference.scale).max())

    tf32 = [(array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for array in inputs]
    tapless = [array.copy() for array in inputs]
    tapless[1][0, 0, 0, 0] = 0
    assert error([*inputs]) < conv.tolerance() < min(error(tf32), error(tapless))
    assert error(tf32, as_tf32) < as_tf32.tolerance() < error(tapless, as_tf32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 0}, "n=0: a whole number"),
        ({"r": 6}, r"r=6: the filter reaches 6 pixels, the padded image has 5: a larger h or pad_h"),
        ({"s": 3, "dilation_w": 3}, r"s=3: the filter reaches 7 pixels, the padded image has 5: a larger w"),
        ({"stride_h": 0}, "stride_h=0: a whole number of at least 1"),
        ({"stride_w": 1.5}, "stride_w=1.5"),
        ({"dilation_w": 0}, "dilation_w=0"),
        ({"pad_w": -1}, "pad_w=-1: a whole number of at least 0"),
        ({"groups": 0}, "groups=0"),
        ({"groups": 4}, "groups=4: k=6 is no multiple"),
        ({"direction": "backward"}, "direction='backward': one of forward, bwd_data"),
        ({"dtype": "float64"}, "dtype='float64'"),
        ({"layout": "chwn"}, "layout='chwn'"),
        ({"dtype": "bfloat16", "math_mode": "tf32"}, "tf32 is a mode of float32"),
        ({"dtype": "int8", "math_mode": "tf32"}, "tf32 is a mode of float32"),
        (
            {"dtype": "int8", "direction": "bwd_data"},
            "direction='bwd_data' with dtype='int8': int8 is for forward alone",
        ),
        ({"dtype": "int8", "direction": "bwd_weights"}, "int8 is for forward alone"),
        ({"algo": "winograd"}, "algo='winograd': one of auto, heuristic, implicit_gemm"),
        ({"algo": "implicit_gemm", "math_mode": "tf32"}, "'implicit_gemm' has no tf32 mode"),
        ({"algo": "implicit_gemm", "workspace_bytes": 1}, "takes no workspace"),
        ({"workspace_bytes": -1}, "workspace_bytes=-1: a whole number of at least 0"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Conv(**({"n": 1, "c": 4, "h": 5, "w": 5, "k": 6, "r": 1, "s": 1} | fields))


@pytest.mark.parametrize("fields", [{}, {"groups": 64}, {"pad_h": 3, "stride_w": 2, "dilation_h": 2}], ids=str)
def test_a_large_problem_is_probed_by_a_small_one_of_its_kind(fields: dict[str, Any]) -> None:
    large = Conv(64, 64, 112, 112, 64, 3, 3, **fields)
    for flop in (2**24, 2**28):
        small = large.probe(flop)
        assert small is not None
        assert flop / 3 < small.flop() < flop * 1.5
        assert (small.c, small.k, small.r, small.s, small.groups) == (large.c, large.k, large.r, large.s, large.groups)
        assert small.probe(flop) is None
