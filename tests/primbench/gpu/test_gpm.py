"""GPM through pynvml's own ctypes layer. No GPU runs here: a library compiled from C stands in for NVML's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.gpu.nvidia.gpm import LEAST_S, NAMES

SOURCE = Path(__file__).parents[1] / "fixtures" / "nvml_stub.c"
ASKED = f"""
import json, time
from primbench.devices import nth_gpu
from primbench.gpu.nvidia import gpm, nvml
missing, found = {{}}, []
with gpm.shares(nvml.find(nth_gpu(0)), missing) as shares:
    if shares:
        found.append(shares(missing))
        for _ in range(2):
            time.sleep({LEAST_S})
            found.append(shares(later := {{}}))
        missing = later
print(json.dumps([found, missing]))
"""


@pytest.fixture(scope="module")
def stub(built_stub: Callable[[Path], str]) -> str:
    return built_stub(SOURCE)


def ask(stub: str, log: Path, **variables: str) -> tuple[list[dict[str, float]], dict[str, str], list[str]]:
    """Three readings, the first at once, why some are missing in the end, and the calls that NVML saw of GPM."""
    asked = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", ASKED],
        env={**os.environ, **variables, "LD_PRELOAD": stub, "STUB_LOG": str(log)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found, missing = json.loads(asked.stdout)
    return found, missing, [call for call in log.read_text().split() if call.startswith("nvmlGpm")]


def test_shares_are_those_between_two_samples_in_si_units_and_samples_are_freed(stub: str, tmp_path: Path) -> None:
    (at_once, second, third), missing, calls = ask(stub, tmp_path / "calls")
    assert {} == at_once, "too short a time"
    # The stand-in gives the number of a metric times the samples taken in between.
    expected = {"sm_active_fraction": 0.02, "tensor_active_fraction": 0.05, "dram_bandwidth_fraction": 0.1}
    expected |= {"pcie_tx_bytes_per_s": 20 * 2**20, "pcie_rx_bytes_per_s": 21 * 2**20}
    assert pytest.approx(expected) == second == third
    assert ({}, set(NAMES)) == (missing, set(second))
    alloc, get, metrics, free = (f"nvmlGpm{name}" for name in ("SampleAlloc", "SampleGet", "MetricsGet", "SampleFree"))
    assert ["nvmlGpmQueryDeviceSupport", alloc, alloc, get, get, metrics, get, metrics, free, free] == calls


def test_a_mig_instance_is_sampled_through_its_board(stub: str, tmp_path: Path) -> None:
    (_, second, _), missing, calls = ask(stub, tmp_path / "calls", STUB_MIG="1")
    assert ({}, set(NAMES)) == (missing, set(second))
    assert 3 == calls.count("nvmlGpmMigSampleGet")
    assert "nvmlGpmSampleGet" not in calls


def test_a_metric_that_fails_is_missing_alone(stub: str, tmp_path: Path) -> None:
    (_, second, _), missing, _ = ask(stub, tmp_path / "calls", STUB_GPM_FAIL="20")
    assert set(NAMES) - {"pcie_tx_bytes_per_s"} == set(second)
    assert {"pcie_tx_bytes_per_s": "nvmlGpmMetricsGet: NVML_GPM_METRIC_PCIE_TX_PER_SEC: NVML error 3"} == missing


@pytest.mark.parametrize(
    ("variables", "reason", "freed"),
    [
        ({"STUB_NO_GPM": "1"}, "this GPU has no GPM counters: those before Hopper do not", 0),
        (
            {"STUB_FAIL": "nvmlGpmQueryDeviceSupport=13"},
            "nvmlGpmQueryDeviceSupport: NVMLError_FunctionNotFound (13)",
            0,
        ),
        ({"STUB_FAIL": "nvmlGpmSampleGet=4"}, "nvmlGpmSampleGet: NVMLError_NoPermission (4)", 2),
    ],
    ids=["older GPU", "older driver", "no permission"],
)
def test_where_there_is_none_each_share_has_the_reason(
    stub: str, tmp_path: Path, variables: dict[str, str], reason: str, freed: int
) -> None:
    found, missing, calls = ask(stub, tmp_path / "calls", **variables)
    assert ([], dict.fromkeys(NAMES, reason)) == (found, missing)
    assert freed == calls.count("nvmlGpmSampleFree")
