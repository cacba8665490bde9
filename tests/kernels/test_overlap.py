"""A product beside an all-reduce: what is compared, and the share that is hidden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from primbench.backends import missing
from primbench.dtypes import numpy_dtype
from primbench.kernels.overlap import Overlap
from primbench.measurement import Measurement, Samples
from primbench.results import file as results_file

SEED = 3


def samples(*times_s: float) -> Samples:
    return Samples(samples_s=list(times_s), calls_per_sample=1, taken_by="a ruler", stopped="count")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_wrong_sum_and_product_is_counted(dtype: str) -> None:
    problem = Overlap(4096, 2, dtype, 40, 30, 50)
    brought = [problem.inputs_of(rank, SEED) for rank in range(2)]
    _, a, b = brought[1]
    product = (a.astype(np.float64) @ b.astype(np.float64)).astype(numpy_dtype(dtype))
    output = np.concatenate([brought[0][0] + brought[1][0], product.ravel()])
    assert [0, output.size] == problem.told_of(output, 1, SEED)
    output[[0, problem.count - 1, problem.count, -1]] += numpy_dtype(dtype).type(64)
    assert 4 == problem.told_of(output, 1, SEED)[0]


def test_what_is_hidden_has_an_interval_of_rounds() -> None:
    rounds = 8
    together, product, alone = ([each] * rounds for each in (10.0, 8.0, 4.0))
    together[0] = 11.0
    others = {"together_s": samples(*together), "product_s": samples(*product), "collective_s": samples(*alone)}
    figures = Overlap(4096).figures(Measurement(others=others, verified=True))
    assert [10, 8, 4, 0.5, 0.25, 0.5, 0] == [*figures.values()]
    assert {None} == set(Overlap(4096).figures(Measurement()).values())


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")
def test_two_ranks_of_gloo_have_all_three_times(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    asked = ["--bytes=4KiB", "-m64", "-n48", "-k80", "--ranks=2", "--min-time=1ms", "--max-time=5ms"]
    command = [sys.executable, "-P", "-m", "primbench", "overlap", *asked, "--backend=torch", "--device=cpu"]
    done = subprocess.run([*command, "-o", str(file)], capture_output=True, text=True, timeout=120)
    (record,) = results_file.read(file).records
    assert (0, "ok") == (done.returncode, record.status), (done.stderr, record.reason)
    assert record.measurement
    assert record.measurement.verified
    assert {"together_s", "product_s", "collective_s"} == set(record.measurement.others)
    assert "hidden" in done.stdout
