"""An all-reduce with the normalisation behind it: what is compared, and its kernel of Triton on plain buffers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from primbench.backends import missing
from primbench.dtypes import numpy_dtype
from primbench.errors import InvalidField
from primbench.kernels.allreduce_norm import AllreduceNorm
from primbench.results import file as results_file

SEED = 3
ON_BUFFERS = """
import torch
from primbench.backends import open_backend
from primbench.kernels.allreduce_norm import AllreduceNorm
from primbench.kernels.allreduce_norm._triton import summed_norm
from primbench.problem import Outputs

backend = open_backend("torch", "cpu")
for dtype in ("float32", "float16", "bfloat16"):
    problem = AllreduceNorm(9240, 3, dtype, 77)
    brought = [[backend.put(each) for each in problem.inputs_of(rank, 3)] for rank in range(3)]
    buffers = torch.tensor([x.data_ptr() for x, _, _ in brought])
    _, residual, weight = brought[0]
    h, y = torch.full_like(residual, torch.nan), torch.full_like(residual, torch.nan)
    summed_norm(buffers, residual, weight, (h, y), 1e-5)
    found = Outputs(backend, (h, y)).get()
    brought[2][0][-1, 5] += 64
    summed_norm(buffers, residual, weight, (h, y), 1e-5)
    off = problem.told_of(Outputs(backend, (h, y)).get(), 0, 3)[0]
    print(dtype, int(problem.told_of(found, 1, 3)[0]), 2 <= off <= 1 + 77)
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_wrong_sum_and_norm_is_counted(dtype: str) -> None:
    problem = AllreduceNorm(6160, 2, dtype, 77)
    (x, residual, weight), (other, same, _) = (problem.inputs_of(rank, SEED) for rank in range(2))
    np.testing.assert_array_equal(residual, same)
    h = x.astype(np.float64) + other + residual
    y = h / np.sqrt((h**2).mean(axis=1, keepdims=True) + 1e-5) * weight.astype(np.float64)
    output = np.concatenate([h.ravel(), y.ravel()]).astype(numpy_dtype(dtype))
    assert [0, 2 * problem.count] == problem.told_of(output, 1, SEED)
    output[[0, -1]] += numpy_dtype(dtype).type(64)
    output[[problem.count - 1, problem.count]] = np.nan
    assert 4 == problem.told_of(output, 1, SEED)[0]
    with pytest.raises(InvalidField, match="bytes=1024: a row of features=77 takes"):
        AllreduceNorm(1024, 2, dtype, 77)


@pytest.mark.wheel
def test_its_kernel_of_triton_sums_and_normalises_buffers_of_several_ranks() -> None:
    pytest.importorskip("triton", reason="triton is not installed, and comes with a torch for CUDA")
    pytest.importorskip("torch", reason="torch is not installed")
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ON_BUFFERS], env=environment, capture_output=True, text=True, check=False
    )
    right = [f"{dtype} 0 True" for dtype in ("float32", "float16", "bfloat16")]
    assert right == done.stdout.splitlines(), done.stderr


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")
def test_two_ranks_of_gloo_sum_and_normalise(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    asked = ["--bytes=4KiB", "--features=64", "--ranks=2", "--min-time=1ms", "--max-time=5ms", "--kernel=all"]
    command = [sys.executable, "-P", "-m", "primbench", "allreduce_norm", *asked, "--backend=torch", "--device=cpu"]
    done = subprocess.run([*command, "-o", str(file)], capture_output=True, text=True, timeout=120)
    found = {record.case.kernel: record for record in results_file.read(file).records}
    usual = found.pop("")
    assert "ok" == usual.status, (done.stderr, usual.reason)
    assert usual.measurement
    assert usual.measurement.verified
    assert "triton needs a GPU" in done.stdout + done.stderr + " ".join(str(each.reason) for each in found.values())
