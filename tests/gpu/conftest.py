from __future__ import annotations

import pytest

from primbench.gpu.nvidia import nvml


@pytest.fixture
def two_gpus() -> None:
    """Skips where CUDA sees fewer, as where a variable hides one."""
    if (count := nvml.device_count()) < 2:
        pytest.skip(f"needs 2 GPUs: CUDA sees {count}")
