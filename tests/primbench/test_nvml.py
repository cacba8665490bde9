"""Through pynvml's own ctypes layer into a stub of the library. Each test asks in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "fixtures" / "nvml_stub.c"
READ = "msgspec.to_builtins(nvml.{}('cuda:0'))"

CHILD = """
import ctypes, json, sys
import msgspec
from primbench import nvml
from primbench.errors import InvalidRequest
if sys.argv[1]:
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)  # found by its soname when pynvml asks for it
answers = []
for question in sys.argv[2:]:
    try:
        answers.append(eval(question))
    except InvalidRequest as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
"""


def ask(library: str, *questions: str, **variables: str) -> list[Any]:
    """The answers to Python expressions, or the error's name and text."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, library, *questions],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc) to build the NVML stub with")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml-stub.so"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([compiler, *flags, "-o", library, SOURCE], check=True)
    return str(library)


def test_identity_in_si_units(stub: str) -> None:
    expected = {
        "name": "NVIDIA H200",
        "uuid": "GPU-0aaa0000",
        "pci_address": "0000:a0:00.0",
        "driver_version": "580.159.04",
        "cuda_driver_version": "13.0",
        "memory_bytes": 150754820096,
        "compute_capability": "9.0",
        "power_limit_w": 700.0,
        "ecc": True,
        "persistence": True,
        "mig": False,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "missing": {},
    }
    assert [expected] == ask(stub, READ.format("identity"))


def test_load_in_si_units(stub: str) -> None:
    (load,) = ask(stub, READ.format("read_load"), STUB_REASONS="0x44")
    assert {
        "sm_clock_hz": 1.98e9,
        "memory_clock_hz": 3.201e9,
        "power_w": pytest.approx(512.345),
        "temperature_c": 41.0,
        "clocks_event_reasons": ["sw power cap", "hw thermal slowdown"],
        "energy_j": None,
        "energy_time_s": None,
        "missing": {},
    } == load


def test_nothing_holding_the_clocks_is_an_empty_list(stub: str) -> None:
    assert ask(stub, "nvml.read_load('cuda:0').clocks_event_reasons") == [[]]


def test_reason_newer_than_the_names_is_kept_as_its_bit(stub: str) -> None:
    assert ask(stub, "nvml.read_load('cuda:0').clocks_event_reasons", STUB_REASONS="0x100001") == [
        ["gpu idle", "reason 0x100000"]
    ]


def test_energy_is_counted_in_joules(stub: str) -> None:
    assert [[pytest.approx(1234.567), None]] == ask(stub, "nvml.energy_j('cuda:0')")


def test_power_falls_back_to_the_call_that_is_instant_on_older_gpus(stub: str) -> None:
    question = "nvml.read_load('cuda:0').power_w"
    assert [pytest.approx(400.0)] == ask(stub, question, STUB_FAIL="instant=3")


# Field -> the functions whose failure takes it away, and nothing else.
SOURCES = {
    "name": "nvmlDeviceGetName",
    "uuid": "nvmlDeviceGetUUID",
    "pci_address": "nvmlDeviceGetPciInfo_v3",
    "driver_version": "nvmlSystemGetDriverVersion",
    "cuda_driver_version": "nvmlSystemGetCudaDriverVersion",
    "memory_bytes": "nvmlDeviceGetMemoryInfo",
    "compute_capability": "nvmlDeviceGetCudaComputeCapability",
    "power_limit_w": "nvmlDeviceGetEnforcedPowerLimit",
    "ecc": "nvmlDeviceGetEccMode",
    "persistence": "nvmlDeviceGetPersistenceMode",
    "mig": "nvmlDeviceGetMigMode",
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
    "temperature_c": "nvmlDeviceGetTemperature",
    "power_w": "nvmlDeviceGetFieldValues",
    "clocks_event_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
}


@pytest.mark.parametrize("field", sorted(SOURCES))
def test_each_field_fails_alone_and_names_the_error(stub: str, field: str) -> None:
    read = READ.format("read_load" if field in ("temperature_c", "power_w", "clocks_event_reasons") else "identity")
    (found,) = ask(stub, read, STUB_FAIL=f"{SOURCES[field]}=3")
    assert {field} == set(found["missing"])
    assert found["missing"][field].endswith("NVMLError_NotSupported (3)")
    assert found[field] is None


def test_both_clocks_fail_with_their_call(stub: str) -> None:
    (missing,) = ask(stub, "nvml.read_load('cuda:0').missing", STUB_FAIL="nvmlDeviceGetClockInfo=15")
    reason = "nvmlDeviceGetClockInfo: NVMLError_GpuIsLost (15)"
    assert {"sm_clock_hz": reason, "memory_clock_hz": reason} == missing


def test_absent_energy_counter_has_a_reason(stub: str) -> None:
    answers = ask(stub, "nvml.energy_j('cuda:0')", STUB_FAIL="nvmlDeviceGetTotalEnergyConsumption=3")
    assert answers == [[None, "nvmlDeviceGetTotalEnergyConsumption: NVMLError_NotSupported (3)"]]


def test_first_energy_reading_makes_the_slow_first_calls_of_a_load(stub: str, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    ask(stub, "nvml.energy_j('cuda:0')", "nvml.energy_j('cuda:0')", STUB_LOG=str(log))
    calls = log.read_text().split()
    assert calls.count("nvmlDeviceGetTemperature") == 1
    assert calls.count("nvmlDeviceGetTotalEnergyConsumption") == 3
    assert calls.count("nvmlInitWithFlags") == 1


UUIDS = "[nvml.identity(f'cuda:{index}').uuid for index in range(nvml.device_count())]"


@pytest.mark.parametrize(
    ("expected", "visible"),
    [
        (["GPU-2aaa0000"], "2"),
        (["GPU-2aaa0000", "GPU-0aaa0000"], "2,0"),
        (["GPU-1aaa0000", "GPU-0aaa0000"], "GPU-1aaa0000, 0"),
        (["GPU-1aaa0000"], "GPU-1"),
        (["MIG-0ccc0000"], "MIG-0ccc"),
        (["GPU-1aaa0000"], "1,7,0"),
        ([], ""),
        ([], "-1"),
        ([], "GPU-"),
        ([], "none"),
        ([], "GPU-9"),
    ],
)
def test_visible_devices_are_those_of_cuda(stub: str, expected: list[str], visible: str) -> None:
    found = ask(stub, UUIDS, CUDA_VISIBLE_DEVICES=visible, STUB_NAMES="H,H,H", STUB_MIG="1")
    assert [expected] == found


def test_without_the_variable_all_boards_are_visible(stub: str) -> None:
    assert ask(stub, UUIDS, STUB_NAMES="H,H") == [["GPU-0aaa0000", "GPU-1aaa0000"]]


def test_order_of_unlike_gpus_is_not_guessed(stub: str) -> None:
    (answer,) = ask(stub, "nvml.pci_address('cuda:0')", STUB_NAMES="H200,T400")
    assert "PlacementError: the GPUs differ" in answer
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in answer


def test_unlike_gpus_are_found_by_pci_order_or_uuid(stub: str) -> None:
    names = {"STUB_NAMES": "H200,T400"}
    address = "nvml.pci_address('cuda:0')"
    assert ask(stub, address, CUDA_DEVICE_ORDER="PCI_BUS_ID", **names) == ["0000:a0:00.0"]
    assert ask(stub, address, CUDA_VISIBLE_DEVICES="GPU-1", **names) == ["0000:a1:00.0"]


def test_mig_instance_is_itself_and_lies_on_its_board(stub: str) -> None:
    (gpu,) = ask(stub, READ.format("identity"), CUDA_VISIBLE_DEVICES="MIG-0ccc0000", STUB_MIG="1")
    assert (gpu["name"], gpu["memory_bytes"], gpu["mig"]) == ("NVIDIA H200 MIG 1g.18gb", 18 * 2**30, True)
    assert gpu["pci_address"] == "0000:a0:00.0"
    assert gpu["missing"] == {}


def test_device_out_of_range_is_told_which_there_are(stub: str) -> None:
    question = "nvml.pci_address('cuda:2')"
    expected = "PlacementError: --device cuda:2: the GPUs to be seen here are cuda:0, cuda:1"
    assert [expected] == ask(stub, question, STUB_NAMES="H,H")
    (answer,) = ask(stub, question, STUB_NAMES="H,H", CUDA_VISIBLE_DEVICES="1")
    assert answer.endswith("cuda:0 (CUDA_VISIBLE_DEVICES=1)")


@pytest.mark.parametrize("device", ["cuda", "cuda:", "cuda:-1", "gpu:0", "cpu"])
def test_other_names_of_devices_are_refused(stub: str, device: str) -> None:
    (answer,) = ask(stub, f"nvml.pci_address({device!r})")
    assert answer.startswith(f"InvalidRequest: device {device!r}")


def test_pci_address_that_nvml_refuses_is_said(stub: str) -> None:
    (answer,) = ask(stub, "nvml.pci_address('cuda:0')", STUB_FAIL="nvmlDeviceGetPciInfo_v3=999")
    assert answer.startswith("PlacementError: --device cuda:0: nvmlDeviceGetPciInfo: NVMLError_Unknown (999)")


@pytest.mark.parametrize("failing", ["nvmlInitWithFlags=9", "nvmlDeviceGetCount_v2=999"])
def test_driver_that_does_not_answer_is_a_reason_everywhere(stub: str, failing: str) -> None:
    questions = [
        "nvml.device_count()",
        "nvml.identity('cuda:0').missing['device']",
        "nvml.read_load('cuda:0').missing['device']",
        "nvml.energy_j('cuda:0')[1]",
    ]
    for answer in ask(stub, *questions, STUB_FAIL=failing):
        assert answer.removeprefix("PlacementError: ").startswith("GPUs cannot be found: nvml")
        assert "NVMLError_" in answer


def test_absent_python_module_is_a_reason() -> None:
    (answer,) = ask("", "sys.modules.__setitem__('pynvml', None) or nvml.energy_j('cuda:0')")
    assert answer == [None, "GPUs cannot be found: module 'pynvml' is absent: pip install nvidia-ml-py"]


def test_absent_driver_is_a_reason() -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has an NVIDIA driver")
    (answer,) = ask("", "nvml.identity('cuda:0').missing['device']")
    assert answer.startswith("GPUs cannot be found: nvmlInit: NVMLError_")
