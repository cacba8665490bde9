"""Shapes that were false failures among random ones of every primitive with a backward pass, on an H200 and on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.dtypes import numpy_dtype, rounding
from primbench.kernels.norm import Norm
from primbench.problem import Reference
from primbench.registry import build, setup_of
from primbench.timing.verify import error_of, on_host, rewritten

pytestmark = pytest.mark.wheel

FOUND: dict[str, tuple[str, str, dict[str, Any]]] = {
    "many P and dS are below the smallest normal number": (
        "attention", "torch",
        {"batch_size": 4, "heads": 12, "seq_len": 128, "head_dim": 64, "causal": True, "dtype": "float16",
         "layout": "bhsd", "mode": "train"},
    ),
    "so are those of few queries and many keys": (
        "attention", "torch",
        {"batch_size": 1, "heads": 16, "seq_len": 2, "head_dim": 64, "kv_len": 875, "causal": True, "dtype": "float16",
         "mode": "backward", "algo": "math"},
    ),
    "gradients of a key are sums over many heads, each of them rounded": (
        "attention", "torch",
        {"batch_size": 4, "heads": 922, "seq_len": 7, "head_dim": 5, "kv_heads": 1, "mode": "backward",
         "dtype": "float16", "layout": "bhsd"},
    ),
    "shares of an average are below the smallest normal number": (
        "pool", "torch",
        {"n": 18, "c": 58, "h": 7, "w": 82, "r": 2, "s": 2, "pad_h": 1, "stride_h": 2, "stride_w": 2, "kind": "average",
         "direction": "backward", "dtype": "float16"},
    ),
    "means are kept in the type of x": (
        "norm", "torch",
        {"rows": 2048, "features": 2, "kind": "layer", "direction": "backward", "dtype": "bfloat16"},
    ),
    "a variance is a sum in float32, one by one": (
        "norm", "torch",
        {"rows": 147, "features": 3, "h": 28, "w": 12, "kind": "batch", "direction": "backward", "layout": "nhwc"},
    ),
    "a product of two numbers is below the smallest normal number": (
        "grouped_gemm", "torch",
        {"groups": 578, "tokens": 764, "n": 195, "k": 1, "dtype": "float16", "split": "even"},
    ),
    "a sum of integers is 0, and with scales it is not": (
        "scaled_gemm", "torch",
        {"m": 128, "n": 256, "k": 128, "dtype": "int8", "scaling": "row"},
    ),
    "a quotient is too large for its type": (
        "aten", "torch",
        {"operator": "aten.div.Tensor", "arguments": '["float16[512,512]+", "float16[512,512]+"]'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", FOUND)
def test_a_right_result_passes(why: str) -> None:
    primitive, name, fields = FOUND[why]
    if name == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    problem, backend = build(primitive, fields), open_backend(name, "cpu")
    for seed in range(3):
        inputs, rng = problem.inputs(np.random.default_rng(seed)), np.random.default_rng(seed + 1)
        checked = problem.check_inputs(rng, inputs)
        step = setup_of(primitive, name)(backend, problem, *map(backend.put, checked))
        found = on_host(backend, rewritten(backend, step))
        assert error_of(found, problem, problem.reference(rng, *checked)) <= problem.tolerance()
    backend.close()


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_sums_of_batch_normalisation_by_pairs_in_the_type_of_x_pass_and_those_without_some_images_do_not(
    layout: str,
) -> None:
    problem = Norm(32, 300, 6, 5, kind="batch", direction="backward", dtype="bfloat16", layout=layout)
    inputs = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(1), *inputs)
    assert isinstance(reference, Reference)
    dy = np.moveaxis(inputs[-1], 1 if layout == "nchw" else 3, 0).reshape(
        300, -1
    )  # the gradient of the bias is its sum
    of_bias = slice(-300, None)
    right, scale = reference.expected[of_bias], reference.scale[of_bias]
    assert (abs(_by_pairs(dy) - right) / scale).max() < problem.tolerance()
    assert (abs(dy[:, : dy.shape[1] // 2].sum(axis=1, dtype="float64") - right) / scale).max() > problem.tolerance()


def _by_pairs(terms: Any) -> Any:
    """Sums along the last axis, each of two rounded to the terms' own type."""
    while terms.shape[1] > 1:
        terms = np.pad(terms, ((0, 0), (0, terms.shape[1] % 2)))
        terms = (terms[:, ::2].astype("float32") + terms[:, 1::2].astype("float32")).astype(terms.dtype)
    return terms[:, 0].astype("float64")


def test_a_gradient_of_weights_may_be_off_by_its_sum_over_steps_and_sequences() -> None:
    """As one of 308 terms was by cuDNN on an H200."""
    problem = build("rnn", {"hidden_size": 1, "batch_size": 44, "seq_len": 7, "direction": "bwd_weights"})
    reference = Reference(..., expected=np.array([0.9059271160049188]), scale=np.array([0.9059271160049188]))
    assert 2e-6 < error_of(np.array([0.9059252738952637]), problem, reference)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rounding_is_never_more_than_it_is_said_to_be(dtype: str) -> None:
    exact = np.random.default_rng(0).standard_normal(100_000) * np.exp2(np.arange(100_000) % 40 - 35.0)
    off = abs(exact.astype(numpy_dtype(dtype)).astype("float64") - exact)
    assert (off <= rounding(dtype, exact) * (1 + 1e-6)).all()  # float16 by way of float32 rounds twice
    assert 0.0 == rounding(dtype, np.zeros(1))[0]
