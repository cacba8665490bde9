from __future__ import annotations

import pytest

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm import Gemm
from primbench.kernels.startup import Startup
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
    problem = Gemm(1024, 1024, 1024)
    method = Method(cache="cold", dry_run=True)
    measured = measure(problem, backend="numpy", device="cpu", method=method)
    assert measured.input_sets_bytes > 2 * memory.last_level_cache_bytes()
    assert measured.input_sets == measured.input_sets_bytes // problem.memory_bytes() > 1
