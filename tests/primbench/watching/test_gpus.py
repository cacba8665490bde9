"""What a job's GPU does by GPM and NVML. No GPU runs here: a library compiled from C stands in for NVML's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "fixtures" / "nvml_stub.c"


@pytest.fixture
def job() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def watched(stub: str, pid: int, **variables: str) -> dict[str, Any]:
    """The GPU of two looks, a second apart."""
    command = [sys.executable, "-P", "-m", "primbench", "watch", str(pid), "--for", "1.2s", "-o", "-"]
    variables |= {"LD_PRELOAD": stub, "STUB_PIDS": str(pid)}
    told = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    (gpu,) = json.loads(told.stdout.splitlines()[-1])["whole"]["gpus"]
    assert 2 == gpu["looks"]
    return dict(gpu)


def test_shares_and_traffic_are_gpms_since_the_look_before(
    built_stub: Callable[[Path], str], job: int, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    gpu = watched(built_stub(SOURCE), job, STUB_LOG=str(calls))
    # The stand-in gives the number of a metric, which is unknown at the first look.
    expected = {"sm_active_fraction": 0.02, "tensor_active_fraction": 0.05, "dram_bandwidth_fraction": 0.1}
    expected |= {"pcie_sent_bytes_per_s": 20 * 2**20, "pcie_received_bytes_per_s": 21 * 2**20}
    expected |= {"nvlink_received_bytes_per_s": 60 * 2**20, "nvlink_sent_bytes_per_s": 61 * 2**20}
    expected |= {"pcie_link_bytes_per_s": 8 * 3.938e9, "busy_fraction": 0.4}
    assert pytest.approx(expected) == {name: gpu[name] for name in expected}
    assert ([job], []) == (gpu["own"], gpu["others"])
    told = calls.read_text().split()
    assert told.count("nvmlGpmSampleAlloc") == told.count("nvmlGpmSampleFree") == 2
    assert "nvmlDeviceGetPcieThroughput" not in told, "which takes 20 ms"


def test_what_does_not_change_is_asked_once_and_a_board_of_others_every_few_seconds(
    built_stub: Callable[[Path], str], job: int, tmp_path: Path
) -> None:
    """Of two boards the job holds the first one."""
    calls = tmp_path / "calls"
    watched(built_stub(SOURCE), job, STUB_LOG=str(calls), STUB_NAMES="NVIDIA H200,NVIDIA H200", STUB_FREE="1")
    told = calls.read_text().split()
    once = ["nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMaxPcieLinkGeneration"]
    assert [1] * 4 == [told.count(name) for name in once]
    for name in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo"):
        assert 2 == told.count(name), f"{name}: once a look"
    asked = told.count("nvmlDeviceGetComputeRunningProcesses_v3")  # and again where there are more than none
    assert 2 + 1 + 2 == asked, "of both boards, and then of its own"


def test_without_gpm_shares_are_unknown_and_traffic_is_nvmls(built_stub: Callable[[Path], str], job: int) -> None:
    gpu = watched(built_stub(SOURCE), job, STUB_NO_GPM="1")
    unknown = ["sm_active_fraction", "tensor_active_fraction", "dram_bandwidth_fraction", "nvlink_sent_bytes_per_s"]
    assert {None} == {gpu[name] for name in unknown}
    assert all("has no GPM counters" in gpu["missing"][name] for name in unknown)
    assert (2048, 3072) == (gpu["pcie_sent_bytes_per_s"], gpu["pcie_received_bytes_per_s"])
