from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from primbench.errors import InvalidRequest
from primbench.kernels.pool import Pool
from primbench.kernels.pool import problem as pool
from primbench.kernels.pool.problem import as_nchw

SIZES: dict[str, Any] = {"n": 3, "c": 4, "h": 11, "w": 9, "r": 3, "s": 2, "pad_h": 1, "stride_h": 2, "stride_w": 3}


def test_bytes_are_those_of_images_and_of_places() -> None:
    images, outputs = 3 * 4 * 11 * 9, 3 * 4 * 6 * 3
    assert 4 * (images + outputs) == Pool(**SIZES).bytes_moved()
    assert 2 * (images + outputs) == Pool(**SIZES, kind="average", direction="backward", dtype="float16").bytes_moved()
    assert 4 * (images + outputs) + 8 * outputs == Pool(**SIZES, direction="backward").bytes_moved()


@pytest.mark.wheel
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", ["max", "average"])
def test_the_reference_is_what_torch_finds_in_float64(
    kind: str, direction: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(pool, "FULL_CHECK", 0)
    monkeypatch.setattr(pool, "CHECKED_PLANES", 5)
    problem = Pool(**SIZES, kind=kind, direction=direction, layout=layout)
    x, *dy = problem.inputs(np.random.default_rng(0))
    images = torch.from_numpy(x).double().requires_grad_()
    call = torch.nn.functional.max_pool2d if kind == "max" else torch.nn.functional.avg_pool2d
    y = call(as_nchw(problem, images), (3, 2), (2, 3), (1, 0))
    if dy:
        (found,) = torch.autograd.grad(y, images, as_nchw(problem, torch.from_numpy(dy[0]).double()))
    else:
        found = (y if layout == "nchw" else y.permute(0, 2, 3, 1)).detach()
    reference = problem.reference(np.random.default_rng(0), x, *dy)
    assert 5 == len(reference.expected)
    np.testing.assert_allclose(found.numpy()[reference.index], reference.expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad_h": 2}, "r=3: at least twice pad_h=2"),
        ({"s": 10}, "s=10: at least twice pad_w=0, and no more than w=9 with it"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Pool(**(SIZES | options))


def test_windows_lie_side_by_side_unless_told_otherwise() -> None:
    assert (5, 4) == ((problem := Pool(1, 1, 11, 9, 2, 2)).p, problem.q)
