from __future__ import annotations

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.errors import UnsupportedCase
from primbench.kernels.sparse_gemm import SparseGemm
from primbench.registry import setup_of
from primbench.timing.verify import check_output

pytestmark = pytest.mark.wheel


@pytest.mark.parametrize("backend_name", ["numpy", "torch"])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("n", [1, 2, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cpu_kernels_agree_at_every_sparsity(backend_name: str, sparsity: float, n: int, dtype: str) -> None:
    if backend_name == "torch":
        pytest.importorskip("torch", reason="needs torch: pip install torch")
    backend = open_backend(backend_name, "cpu")
    problem = SparseGemm(61, n, 47, sparsity, dtype)
    inputs = problem.inputs(np.random.default_rng(3))
    step = setup_of("sparse_gemm", backend_name)(backend, problem, *map(backend.put, inputs))
    check_output(backend, problem, step, problem.reference(np.random.default_rng(4), *inputs))


@pytest.mark.parametrize("backend_name", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_that_a_cpu_library_lacks_are_refused_with_one_it_has(backend_name: str, dtype: str) -> None:
    if backend_name == "torch":
        pytest.importorskip("torch", reason="needs torch: pip install torch")
    backend = open_backend(backend_name, "cpu")
    problem = SparseGemm(4, 3, 5, dtype=dtype)
    inputs = map(backend.put, problem.inputs(np.random.default_rng(0)))
    with pytest.raises(UnsupportedCase, match=rf"sparse {dtype} .*ask for dtype=float32"):
        setup_of("sparse_gemm", backend_name)(backend, problem, *inputs)
