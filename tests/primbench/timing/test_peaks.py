"""Marks of the most memory that was held."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.devices import nth_gpu
from primbench.timing import peaks

MIB = 2**20
ON_GPU: Any = types.SimpleNamespace(name="torch", device=nth_gpu(1))


def test_memory_that_came_and_went_is_in_the_mark_and_that_of_earlier_cases_is_not() -> None:
    backend = open_backend("numpy", "cpu")
    earlier = np.ones(200 * MIB, "uint8")
    before = peaks.start(backend)
    if "host_peak_bytes" in before.missing:
        pytest.skip(f"the mark cannot be set back on this architecture or system: {before.missing}")
    missing: dict[str, str] = {}
    with_earlier = peaks.since(before, missing)["host_peak_bytes"]
    del earlier
    without = peaks.since(peaks.start(backend), missing)["host_peak_bytes"]
    marks = peaks.start(backend)
    np.ones(100 * MIB, "uint8")
    found = peaks.since(marks, missing)["host_peak_bytes"]
    assert with_earlier is not None
    assert without is not None
    assert found is not None
    assert with_earlier - without > 150 * MIB
    assert 90 * MIB < found - without < 150 * MIB
    assert {"gpu_allocated_peak_bytes": "the case ran on the CPU"} == missing


def test_a_mark_that_cannot_be_set_back_is_unknown_though_it_could_be_read(tmp_path: Path) -> None:
    (tmp_path / "proc/self/clear_refs").mkdir(parents=True)  # which nobody can write to, root included
    (tmp_path / "proc/self/status").write_text("VmHWM:\t 1024 kB\n")
    missing: dict[str, str] = {}
    found = peaks.since(peaks.start(open_backend("numpy", "cpu"), tmp_path), missing)
    assert None is found["host_peak_bytes"]
    assert missing["host_peak_bytes"].endswith("clear_refs: EISDIR")


def test_the_kernel_is_told_to_set_back_the_mark_alone(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("VmPeak:\t 9 kB\nVmHWM:\t 1024 kB\n")
    found = peaks.since(peaks.start(open_backend("numpy", "cpu"), tmp_path), {})
    assert ("5", MIB) == ((tmp_path / "proc/self/clear_refs").read_text(), found["host_peak_bytes"])


class StandInForCuda:
    """For torch.cuda, which needs a GPU: its two calls, with the device that each was for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def reset_peak_memory_stats(self, device: str) -> None:
        self.asked.append(f"reset {device}")

    def max_memory_allocated(self, device: str) -> int:
        self.asked.append(f"most {device}")
        return 5


def test_torchs_allocator_is_asked_for_the_device_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = StandInForCuda()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    missing: dict[str, str] = {}
    assert 5 == peaks.since(peaks.start(ON_GPU), missing)["gpu_allocated_peak_bytes"]
    assert ["reset cuda:1", "most cuda:1"] == cuda.asked
    assert "gpu_allocated_peak_bytes" not in missing


def test_another_frameworks_allocator_keeps_no_such_mark() -> None:
    cupy: Any = types.SimpleNamespace(name="cupy", device=nth_gpu(0))
    missing: dict[str, str] = {}
    assert None is peaks.since(peaks.start(cupy), missing)["gpu_allocated_peak_bytes"]
    assert "cupy has its own" in missing["gpu_allocated_peak_bytes"]
