from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.devices import Device
from primbench.errors import UnsupportedCase
from primbench.kernels.gemm import Gemm
from primbench.kernels.gemm._tiles import Tile
from primbench.kernels.gemm.numba import TILES, _tile, numba_gemm

from . import gpu_simulator

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("numba") is not None, reason=str(missing("numba")))]

SIZES = ((1, 1, 1), (33, 17, 5), (64, 64, 64), (70, 129, 67))

# The simulator runs threads one by one in Python, so it gets small tiles. 4x4 doubles are two groups each way,
# 4x4 floats are one. How A is copied does not ask how B is: two of the four ways visit both copies of the other types.
# (18, 17, 6) is four blocks and ragged everywhere, (18, 9, 6) two of them, (13, 9, 6) one, (16, 16, 8) a whole one.
IN_SIMULATOR = """
import itertools, json, types
import numpy as np
from primbench.kernels.gemm import numba as gemm_numba
from primbench.kernels.gemm import Gemm
from primbench.devices import nth_gpu
from primbench.dtypes import numpy_dtype
from primbench.problem import description_of

TILE = gemm_numba.Tile(16, 16, 4, 4, 4)
gemm_numba.TILES = {"float64": (TILE,), "float32": (TILE,), "int32": (TILE,)}
backend = types.SimpleNamespace(
    device=nth_gpu(0), multiprocessors=1, stream=0, synchronize=lambda: None,
    empty=lambda shape, dtype: np.zeros(shape, numpy_dtype(dtype)),
)
wrong = []
for dtype, trans_a, trans_b, whole in itertools.product(
    ("float64", "float32", "float16", "int8"), (False, True), (False, True), (False, True)
):
    if dtype != "float64" and trans_a == trans_b:
        continue
    ragged = (18, 9, 6) if dtype != "float64" else (18, 17, 6) if trans_a == trans_b else (13, 9, 6)
    sizes = (16, 16, 8) if whole else ragged
    factors = {} if dtype == "int8" or whole else {"alpha": 2.0, "beta": 0.5}
    problem = Gemm(*sizes, dtype=dtype, trans_a=trans_a, trans_b=trans_b, **factors)
    rng = np.random.default_rng(1)
    inputs = problem.inputs(rng)
    step = gemm_numba.numba_gemm(backend, problem, *inputs)
    output, reference = step(), problem.reference(rng, *inputs)
    within = np.abs(output - reference.expected) <= problem.tolerance() * reference.scale
    if not within.all():
        wrong.append([str(problem), int((~within).sum())])
print(json.dumps({"wrong": wrong, "algorithm": description_of(step).algorithm}))
"""


def is_right(problem: Gemm, backend: Any) -> bool:
    """Whether every element of a step whose output was poisoned before is within the tolerance; no NaN is."""
    rng = np.random.default_rng(1)
    inputs = problem.inputs(rng)
    step = numba_gemm(backend, problem, *(backend.put(each) for each in inputs))
    backend.poison(step())
    output, reference = backend.get(step()), problem.reference(rng, *inputs)
    within = np.abs(output - reference.expected) <= problem.tolerance() * reference.scale
    return bool(within.all())


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize(("trans_a", "trans_b"), list(itertools.product((False, True), repeat=2)))
def test_cpu_product_is_right_at_every_edge(dtype: str, trans_a: bool, trans_b: bool) -> None:
    backend = open_backend("numba", "cpu")
    for m, n, k in SIZES:
        problem = Gemm(m, n, k, dtype=dtype, trans_a=trans_a, trans_b=trans_b)
        assert is_right(problem, backend), problem


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.0), (1.0, 1.0), (-0.5, 3.0)])
def test_cpu_product_is_scaled_and_added_to(alpha: float, beta: float) -> None:
    problem = Gemm(33, 17, 5, alpha=alpha, beta=beta)
    assert is_right(problem, open_backend("numba", "cpu"))


def test_step_compiles_nothing() -> None:
    from primbench.kernels.gemm._numba_cpu import compiled, transpose

    backend = open_backend("numba", "cpu")
    problem = Gemm(5, 6, 7, trans_a=True, trans_b=True)
    step = numba_gemm(backend, problem, *problem.inputs(np.random.default_rng(1)))
    before = compiled.cache_info().misses, list(transpose.signatures)
    step()
    assert before == (compiled.cache_info().misses, transpose.signatures)


def test_the_cpu_product_is_compiled_once_however_a_lies_in_memory() -> None:
    from primbench.kernels.gemm._numba_cpu import compiled

    compiled.cache_clear()
    for trans_a, trans_b in itertools.product((False, True), repeat=2):
        assert is_right(Gemm(5, 6, 7, trans_a=trans_a, trans_b=trans_b), open_backend("numba", "cpu"))
    assert 1 == compiled.cache_info().misses


@pytest.mark.parametrize(
    ("device", "options", "reason"),
    [
        ("cpu", {"dtype": "float16"}, "no float16 on a CPU"),
        ("cpu", {"dtype": "bfloat16"}, "no bfloat16 on a CPU"),
        ("cuda:0", {"dtype": "float8_e4m3"}, "no float8_e4m3 arrays"),
        ("cuda:0", {"math_mode": "tf32"}, "no tf32 mode"),
        ("cuda:0", {"dtype": "float16", "accumulate": "float16"}, "sums float16 in float32"),
    ],
)
def test_case_that_numba_cannot_do_is_refused(device: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedCase, match=reason):
        numba_gemm(SimpleNamespace(device=Device.parse(device)), Gemm(8, 8, 8, **options), None, None)


@pytest.mark.slow
def test_gpu_kernel_is_right_in_the_simulator() -> None:
    assert {"wrong": [], "algorithm": "tiled 16x16x4, 4x4 a thread"} == gpu_simulator.printed(IN_SIMULATOR)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_largest_tile_that_occupies_the_gpu_is_taken(dtype: str) -> None:
    problem = Gemm(4096, 4096, 64, dtype=dtype)
    tiles = TILES[problem.accumulate]
    assert tiles[0] == _tile(problem, 132)
    assert tiles[-1] == _tile(Gemm(512, 512, 64, dtype=dtype), 132)
    assert tiles[-1] == _tile(Gemm(1, 1, 1, dtype=dtype), 132)


@pytest.mark.parametrize("accumulate", TILES)
def test_tiles_get_smaller(accumulate: str) -> None:
    areas = [tile.block_m * tile.block_n for tile in TILES[accumulate]]
    assert sorted(set(areas), reverse=True) == areas


def test_tile_counts_blocks_and_threads_with_edges() -> None:
    tile = Tile(128, 64, 8, 8, 4)
    assert (256, 4) == (tile.threads, tile.blocks(129, 128))
    assert tile.divides(256, 64, 16)
    assert not tile.divides(256, 64, 12)


@pytest.mark.parametrize("sides", [(16, 16, 4, 8, 8), (48, 16, 12, 4, 4)])
def test_tile_whose_copies_or_sums_do_not_come_out_even_is_refused(sides: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be a multiple"):
        Tile(*sides)
