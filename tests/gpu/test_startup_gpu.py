"""What a process starts on a real GPU before anything else."""

from __future__ import annotations

import pytest

from primbench import Method, measure
from primbench.environment.devices import has_gpu_node
from primbench.kernels.startup import Startup
from primbench.kernels.startup.problem import OF_GPUS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
TOLD = {"context": "CUDA driver 1", "compile": "CUDA driver 1", "cublas": "cuBLAS 1", "cudnn": "cuDNN 9"}


@pytest.mark.parametrize("what", OF_GPUS)
def test_each_is_the_first_of_its_process(what: str) -> None:
    found = measure(Startup(what=what), method=Method(min_time_s=1e-3, max_time_s=1e-3))
    assert found.verified
    assert found.algorithm is not None
    assert found.algorithm.startswith(TOLD[what])
    assert found.batch_s is not None
    assert 1 == found.batch_s.calls_per_sample
