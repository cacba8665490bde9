from __future__ import annotations

import pytest

from primbench.backends import missing
from primbench.errors import UnsupportedCase
from primbench.kernels.aten import Aten
from primbench.kernels.elementwise import Elementwise
from primbench.kernels.gemm import Gemm
from primbench.kernels.startup import Startup
from primbench.problem import Problem
from primbench.spec.method import Method
from primbench.system import memory
from primbench.timing.case import measure
from primbench.timing.inputs import cold_sets


def test_cold_sets_exceed_twice_the_cache() -> None:
    assert 7 == cold_sets(20, 60)
    assert cold_sets(10**9, 60 * 2**20) == 2


def test_a_cold_run_that_would_need_too_many_sets_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"\d+ sets of inputs, 4096 are the limit"):
        measure(Gemm(4, 4, 4), backend="numpy", device="cpu", method=Method(cache="cold"))


def test_what_has_no_inputs_has_no_cold_cache() -> None:
    with pytest.raises(UnsupportedCase, match="startup has no inputs that a cache could hold"):
        measure(Startup(what="thread"), device="cpu", method=Method(cache="cold"))


def test_a_cold_run_rotates_its_sets() -> None:
    problem = Gemm(1024, 1024, 16)
    method = Method(cache="cold", dry_run=True)
    measured = measure(problem, backend="numpy", device="cpu", method=method)
    assert measured.input_sets_bytes > 2 * memory.last_level_cache_bytes()
    assert measured.input_sets == measured.input_sets_bytes // problem.memory_bytes() > 1


def test_a_part_is_cold_where_the_step_touches_more_than_the_cache_holds() -> None:
    cache_bytes = memory.last_level_cache_bytes()

    def sets(problem: Problem, reuse_bytes: int | None) -> int:
        return measure(
            problem, device="cpu", method=Method(dry_run=True, check=False, reuse_bytes=reuse_bytes)
        ).input_sets

    product = Gemm(2, 1024, 1024)
    assert [1, 1] == [sets(product, each) for each in (None, cache_bytes)]
    assert cold_sets(product.memory_bytes(), cache_bytes) == sets(product, cache_bytes + 1)
    pushes_itself_out = Elementwise(2 * cache_bytes // 8)
    assert [1, 1, 1] == [sets(each, 2**50) for each in (Gemm(4, 4, 4), Startup(what="thread"), pushes_itself_out)]


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_sets_of_any_operator_are_as_many_as_what_it_writes_leaves_to_be_filled() -> None:
    """Of a gradient that is written into rows of a table, or of a sum, which writes next to nothing."""
    cache_bytes, method = memory.last_level_cache_bytes(), Method(dry_run=True, check=False, reuse_bytes=2**50)
    summed = Aten("aten.sum.default", '["float32[512,1024]"]')
    spread = Aten("aten.select_backward.default", '["float32[1024]", [512, 1024], 0, 3]')
    mebi = 2**20
    for problem, touched_bytes in ((summed, 2 * mebi + 4), (spread, 2 * mebi + 4096)):
        found = measure(problem, "torch", "cpu", method=method)
        assert cold_sets(touched_bytes, cache_bytes) == found.input_sets
