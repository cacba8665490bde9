from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import InvalidRequest
from primbench.kernels.norm import Norm
from primbench.kernels.norm import _reference as of_norm
from primbench.kernels.norm._batch import Plan, plan_of
from primbench.kernels.norm._operands import named_inputs
from primbench.kernels.norm._row_gradients import Plan as PlanOfRows
from primbench.kernels.norm._row_gradients import plan_of as plan_of_rows
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.timing.verify import check_output


def test_bytes_are_those_of_each_array_and_vector_once() -> None:
    assert 4 * (2 * 3 * 5 + 2 * 5) == Norm(3, 5).bytes_moved()
    assert 2 * (2 * 3 * 5 + 5) == Norm(3, 5, kind="rms", dtype="bfloat16").bytes_moved()
    assert 4 * (3 * 3 * 5 + 3 * 5) == Norm(3, 5, direction="backward").bytes_moved()
    images = Norm(3, 5, 7, 2, kind="batch", dtype="float16")
    assert 2 * 2 * 3 * 5 * 7 * 2 + 4 * 2 * 5 == images.bytes_moved()
    inference = Norm(3, 5, 7, 2, kind="batch", dtype="float16", running_statistics=True)
    assert 2 * 2 * 3 * 5 * 7 * 2 + 4 * 4 * 5 == inference.bytes_moved()


IMAGES: dict[str, Any] = {"h": 4, "w": 3, "kind": "batch"}


@pytest.mark.wheel
@pytest.mark.parametrize(
    "options",
    [
        {"kind": "layer"},
        {"kind": "rms"},
        IMAGES,
        IMAGES | {"layout": "nhwc"},
        IMAGES | {"running_statistics": True, "layout": "nhwc"},
    ],
)
def test_gradients_are_those_that_torch_finds_in_float64(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    problem = Norm(6, 10, direction="backward", **options)
    inputs = problem.inputs(np.random.default_rng(0))
    named: dict[str, Any] = {
        name: torch.from_numpy(array.astype(np.float64)) if array is not None else None
        for name, array in named_inputs(problem, inputs).items()
    }
    asked = [named[name].requires_grad_() for name in ("x", "weight", "bias") if named[name] is not None]
    x = named["x"].permute(0, 3, 1, 2) if problem.layout == "nhwc" else named["x"]
    if problem.kind == "batch":
        means, kept = (named["running_mean"], named["running_var"]), not problem.running_statistics
        y = torch.nn.functional.batch_norm(x, *means, named["weight"], named["bias"], training=kept)
    else:
        call = torch.nn.functional.layer_norm if problem.kind == "layer" else torch.nn.functional.rms_norm
        y = call(x, (10,), **{name: named[name] for name in ("weight", "bias") if named[name] is not None}, eps=1e-5)
    dy = named["dy"].permute(0, 3, 1, 2) if problem.layout == "nhwc" else named["dy"]
    gradients = np.concatenate([each.numpy().reshape(-1) for each in torch.autograd.grad(y, asked, dy)])
    reference = problem.reference(np.random.default_rng(0), *inputs)
    np.testing.assert_allclose(gradients[reference.index], reference.expected, rtol=1e-9, atol=1e-9)
    assert len(gradients) == len(reference.expected)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("options", [{"kind": "layer"}, {"kind": "rms"}, IMAGES, IMAGES | {"layout": "nhwc"}], ids=str)
def test_a_large_reference_is_a_part_of_the_full_one(
    options: dict[str, Any], direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Norm(40, 50, direction=direction, **options)
    inputs = problem.inputs(np.random.default_rng(0))
    full = problem.reference(np.random.default_rng(1), *inputs)
    monkeypatch.setattr(of_norm, "FULL_CHECK", 0)
    monkeypatch.setattr(of_norm, "BLOCK", 150)  # some rows at a time
    part = problem.reference(np.random.default_rng(1), *inputs)
    assert len(part.expected.ravel()) < len(full.expected.ravel())
    whole = np.full(problem.shape if direction == "forward" else len(full.expected), np.nan)
    whole[full.index] = full.expected
    np.testing.assert_allclose(whole[part.index], part.expected, rtol=1e-9, atol=1e-12)


@pytest.mark.wheel
def test_the_gradient_of_one_row_may_be_off_by_the_rounding_of_its_mean() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    problem, backend = Norm(1, 20_001, direction="backward"), open_backend("torch", "cpu")
    inputs = problem.inputs(np.random.default_rng(1))
    step = setup_of("norm", "torch")(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(0), *inputs))


@pytest.mark.wheel
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_images_in_either_layout_on_torch(layout: str, direction: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    problem, backend = Norm(4, 6, 5, 3, "batch", direction, layout=layout), open_backend("torch", "cpu")
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("norm", "torch")(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(0), *inputs))
    assert str(description_of(step).algorithm).startswith("NativeBatchNormBackward")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "rms", "h": 2}, "kind='rms': h, w, layout and running_statistics are of kind='batch'"),
        ({"running_statistics": True}, "kind='layer': h, w"),
        ({"rows": 1, "kind": "batch"}, "one value a channel"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Norm(**({"rows": 2, "features": 3} | options))


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (
            Plan(pack=8, slices=4, grid=(256, 4), block=(256, 1), packs=32 * 256 * 98),
            {"features": 256, "h": 28, "w": 28},
        ),
        (
            Plan(pack=1, slices=1, grid=(2048, 1), block=(256, 1), packs=32 * 2048 * 49),
            {"features": 2048, "h": 7, "w": 7},
        ),
        (
            Plan(pack=8, slices=784, grid=(1, 784), block=(8, 32), packs=32 * 784 * 8),
            {"features": 64, "h": 28, "w": 28, "layout": "nhwc"},
        ),
    ],
)
def test_blocks_share_the_images_of_a_batch(plan: Plan, options: dict[str, Any]) -> None:
    assert plan == plan_of(Norm(32, kind="batch", dtype="bfloat16", **options))
    assert 256 == plan.block[0] * plan.block[1]


@pytest.mark.parametrize(
    ("features", "dtype", "plan"),
    [
        (1, "float32", PlanOfRows(pack=1, held=1, threads=32, block=1024)),
        (77, "float16", PlanOfRows(pack=1, held=3, threads=32, block=1024)),
        (512, "bfloat16", PlanOfRows(pack=8, held=1, threads=64, block=512)),  # 16 barriers, one of them of all threads
        (1000, "bfloat16", PlanOfRows(pack=8, held=1, threads=128, block=1024)),
        (4096, "bfloat16", PlanOfRows(pack=8, held=1, threads=512, block=1024)),
        (4096, "float32", PlanOfRows(pack=4, held=1, threads=1024, block=1024)),
        (4097, "float32", PlanOfRows(pack=1, held=0, threads=256, block=512)),
        (8191, "bfloat16", PlanOfRows(pack=1, held=8, threads=1024, block=1024)),
        (8200, "float16", PlanOfRows(pack=8, held=0, threads=256, block=512)),
    ],
)
def test_a_block_holds_rows_for_which_it_has_registers(features: int, dtype: str, plan: PlanOfRows) -> None:
    assert plan == plan_of_rows(features, dtype)


def test_a_block_has_memory_for_rows_on_their_way_and_then_for_sums() -> None:
    assert 2**16 == plan_of_rows(4096, "bfloat16").shared_bytes(2, 2)
    assert 2**16 == plan_of_rows(4096, "float32").shared_bytes(2, 4)
    assert 2**15 == plan_of_rows(4096, "float16").shared_bytes(1, 2)
    assert 8 * 512 * 8 == plan_of_rows(8191, "bfloat16").shared_bytes(1, 2)


def test_gradients_are_summed_in_slices_for_every_multiprocessor() -> None:
    assert 132 == plan_of_rows(4096, "bfloat16").slices(Norm(10_000, 4096), 132)
    assert 3 == plan_of_rows(4096, "bfloat16").slices(Norm(3, 4096), 132)
    assert 264 == plan_of_rows(512, "bfloat16").slices(Norm(10_000, 512), 132)  # two blocks of 512 threads fit
    assert 66 == plan_of_rows(16_384, "bfloat16").slices(Norm(10_000, 16_384), 132)  # eight blocks beside each other
    assert 1 == plan_of_rows(10**6, "float32").slices(Norm(1, 10**6), 132)
