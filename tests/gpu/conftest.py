from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from primbench.errors import PlacementError
from primbench.gpu.nvidia import nvml
from primbench.gpu.nvidia.processes import processes_on
from primbench.gpu.nvidia.second_context import SecondContext


@pytest.fixture
def two_gpus() -> None:
    """Skips where CUDA sees fewer, as where a variable hides one."""
    if (count := nvml.device_count()) < 2:
        pytest.skip(f"needs 2 GPUs: CUDA sees {count}")


@pytest.fixture
def idle_gpu() -> None:
    """Skips where another process of this machine holds the first GPU, which takes its time or is found beside a job.

    Where the driver tells numbers of another PID namespace, or none, nothing is skipped.
    """
    try:
        holding = [pid for gpu in nvml.visible_devices()[:1] for pid in processes_on(gpu)]
    except (LookupError, PlacementError):
        return
    others = [pid for pid in holding if pid != os.getpid() and Path(f"/proc/{pid}").exists()]
    if others:
        pytest.skip(f"needs a GPU that nobody else uses: processes {others} hold it")


@pytest.fixture(scope="module")
def one_second_context() -> Iterator[None]:
    """One for all tests of a file: each measure() would make its own, 0.3 s and some hundred MiB, and give it back."""
    held = SecondContext(0)
    held.visit()
    yield
    held.close()
