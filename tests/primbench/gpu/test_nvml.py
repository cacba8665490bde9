"""Through pynvml's own ctypes layer into a stub of the library. Each test asks in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., list[Any]]
SOURCE = Path(__file__).parents[1] / "fixtures" / "nvml_stub.c"
IDENTITY = "msgspec.to_builtins(gpu.described(nvml.find(nth_gpu(0))))"
LOAD = "msgspec.to_builtins(counters.read_load(nth_gpu(0)))"

# It imports what is asked once, and answers each line in a process of its own.
ASKED = """
import contextlib, ctypes, json, os, subprocess, sys, traceback
from pathlib import Path
import msgspec, pynvml
from primbench.devices import Device, nth_gpu
from primbench.gpu.nvidia import counters, gpu, nvml, processes
from primbench.system.files import attempt
from primbench.watching import gpus
from primbench.errors import InvalidRequest
from primbench.measurement.readings import GpuReading

def answer(library, variables, questions):
    os.environ.update(variables)
    if library:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)  # found by its soname when pynvml asks for it
    for question in questions:
        try:
            yield eval(question)
        except InvalidRequest as error:
            yield f"{type(error).__name__}: {error}"

for line in sys.stdin:
    if os.fork() == 0:
        try:
            print(json.dumps(list(answer(*json.loads(line)))), flush=True)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def asked() -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    command = [sys.executable, "-W", "error", "-P", "-c", ASKED]
    with subprocess.Popen(command, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def ask(asked: subprocess.Popen[str]) -> Ask:
    """``ask(library, *questions, **variables)``: answers to Python expressions, or the error's name and text."""

    def of(library: str, *questions: str, **variables: str) -> list[Any]:
        assert asked.stdin is not None
        assert asked.stdout is not None
        print(json.dumps([library, variables, questions]), file=asked.stdin, flush=True)
        answers = json.loads(asked.stdout.readline())
        assert isinstance(answers, list), answers
        return answers

    return of


@pytest.fixture(scope="session")
def stub(built_stub: Callable[[Path], str]) -> str:
    return built_stub(SOURCE)


def test_identity_in_si_units(ask: Ask, stub: str) -> None:
    expected = {
        "name": "NVIDIA H200",
        "uuid": "GPU-0aaa0000",
        "pci_address": "0000:a0:00.0",
        "driver_version": "580.159.04",
        "cuda_driver_version": "13.0",
        "memory_bytes": 150754820096,
        "bar1_bytes": 256 * 2**30,
        "compute_capability": "9.0",
        "sm_clock_max_hz": 1.98e9,
        "sm_clock_application_hz": 1.5e9,
        "memory_clock_max_hz": 3.201e9,
        "power_limit_w": 700.0,
        "power_limit_default_w": 650.0,
        "power_limit_max_w": 750.0,
        "compute_mode": "exclusive process",
        "virtualization_mode": "passthrough",
        "addressing_mode": "hmm",
        "confidential_computing": True,
        "ecc": True,
        "ecc_errors_uncorrected": 2,
        "repair_pending": False,
        "persistence": True,
        "mig": False,
        "mps": True,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "pcie_replays": 12,
        "missing": {},
    }
    state = {"STUB_VIRTUAL": "1", "STUB_CONFIDENTIAL": "1", "STUB_ECC": "2", "STUB_REPLAYS": "12", "STUB_MPS": "77"}
    assert [expected] == ask(stub, IDENTITY, **state)


def test_modes_that_are_off_are_no_and_newer_ones_a_number(ask: Ask, stub: str) -> None:
    (gpu,) = ask(stub, IDENTITY, STUB_VIRTUAL="9")
    assert (gpu["mps"], gpu["confidential_computing"], gpu["ecc_errors_uncorrected"]) == (False, False, 0)
    assert gpu["virtualization_mode"] == "mode 9"


def test_gpu_without_row_remapping_tells_of_its_retired_pages(ask: Ask, stub: str) -> None:
    assert ask(
        stub, "gpu.described(nvml.find(nth_gpu(0))).repair_pending", STUB_FAIL="nvmlDeviceGetRemappedRows=3"
    ) == [True]


def test_function_that_the_python_module_lacks_is_a_reason(ask: Ask, stub: str) -> None:
    older = "delattr(nvml.library(), 'nvmlDeviceGetAddressingMode')"
    _, missing = ask(stub, older, "gpu.described(nvml.find(nth_gpu(0))).missing")
    assert missing == {"addressing_mode": "nvmlDeviceGetAddressingMode: this version of nvidia-ml-py does not have it"}


def test_function_that_the_driver_lacks_is_a_reason(ask: Ask, stub: str) -> None:
    (missing,) = ask(
        stub, "gpu.described(nvml.find(nth_gpu(0))).missing", STUB_FAIL="nvmlDeviceGetMPSComputeRunningProcesses_v3=13"
    )
    assert missing == {"mps": "nvmlDeviceGetMPSComputeRunningProcesses: this driver does not have it"}


def test_load_in_si_units(ask: Ask, stub: str) -> None:
    (load,) = ask(stub, LOAD, STUB_REASONS="0x44")
    assert {
        "sm_clock_hz": 1.98e9,
        "memory_clock_hz": 3.201e9,
        "power_w": pytest.approx(512.345),
        "temperature_c": 41.0,
        "clocks_event_reasons": ["sw power cap", "hw thermal slowdown"],
        "energy_j": None,
        "energy_time_s": None,
        "foreign_processes": None,
        "held_back_s": None,
        "pcie_replays": None,
        "ecc_errors_uncorrected": None,
        "missing": {},
    } == load


def test_nothing_holding_the_clocks_is_an_empty_list(ask: Ask, stub: str) -> None:
    assert ask(stub, "counters.read_load(nth_gpu(0)).clocks_event_reasons") == [[]]


def test_reason_newer_than_the_names_is_kept_as_its_bit(ask: Ask, stub: str) -> None:
    assert ask(stub, "counters.read_load(nth_gpu(0)).clocks_event_reasons", STUB_REASONS="0x100001") == [
        ["gpu idle", "reason 0x100000"]
    ]


def test_energy_is_counted_in_joules(ask: Ask, stub: str) -> None:
    assert [[pytest.approx(1234.567), None]] == ask(stub, "counters.energy_j(nth_gpu(0))")


def test_power_falls_back_to_the_call_that_is_instant_on_older_gpus(ask: Ask, stub: str) -> None:
    question = "counters.read_load(nth_gpu(0)).power_w"
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
    "bar1_bytes": "nvmlDeviceGetBAR1MemoryInfo",
    "sm_clock_application_hz": "nvmlDeviceGetApplicationsClock",
    "power_limit_w": "nvmlDeviceGetEnforcedPowerLimit",
    "power_limit_default_w": "nvmlDeviceGetPowerManagementDefaultLimit",
    "power_limit_max_w": "nvmlDeviceGetPowerManagementLimitConstraints",
    "compute_mode": "nvmlDeviceGetComputeMode",
    "virtualization_mode": "nvmlDeviceGetVirtualizationMode",
    "addressing_mode": "nvmlDeviceGetAddressingMode",
    "confidential_computing": "nvmlSystemGetConfComputeState",
    "ecc_errors_uncorrected": "nvmlDeviceGetTotalEccErrors",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
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
def test_each_field_fails_alone_and_names_the_error(ask: Ask, stub: str, field: str) -> None:
    read = LOAD if field in ("temperature_c", "power_w", "clocks_event_reasons") else IDENTITY
    (found,) = ask(stub, read, STUB_FAIL=f"{SOURCES[field]}=3")
    assert {field} == set(found["missing"])
    assert found["missing"][field].endswith("NVMLError_NotSupported (3)")
    assert found[field] is None


def test_both_clocks_fail_with_their_call(ask: Ask, stub: str) -> None:
    fail = "nvmlDeviceGetClockInfo=15,nvmlDeviceGetMaxClockInfo=15"
    reads = ("counters.read_load(nth_gpu(0)).missing", "gpu.described(nvml.find(nth_gpu(0))).missing")
    now, at_most = ask(stub, *reads, STUB_FAIL=fail)
    reason = "nvmlDeviceGetClockInfo: NVMLError_GpuIsLost (15)"
    assert {"sm_clock_hz": reason, "memory_clock_hz": reason} == now
    reason = "nvmlDeviceGetMaxClockInfo: NVMLError_GpuIsLost (15)"
    assert {"sm_clock_max_hz": reason, "memory_clock_max_hz": reason} == at_most


def test_pending_repairs_are_unknown_where_neither_kind_is_told(ask: Ask, stub: str) -> None:
    fail = "nvmlDeviceGetRemappedRows=3,nvmlDeviceGetRetiredPagesPendingStatus=3"
    (missing,) = ask(stub, "gpu.described(nvml.find(nth_gpu(0))).missing", STUB_FAIL=fail)
    assert missing == {"repair_pending": "nvmlDeviceGetRetiredPagesPendingStatus: NVMLError_NotSupported (3)"}


def test_absent_energy_counter_has_a_reason(ask: Ask, stub: str) -> None:
    answers = ask(stub, "counters.energy_j(nth_gpu(0))", STUB_FAIL="nvmlDeviceGetTotalEnergyConsumption=3")
    assert answers == [[None, "nvmlDeviceGetTotalEnergyConsumption: NVMLError_NotSupported (3)"]]


def test_look_before_a_case_makes_the_slow_first_calls_of_all_once(ask: Ask, stub: str, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    ask(stub, "repr(counters.start(nth_gpu(0)))", "repr(counters.start(nth_gpu(0)))", STUB_LOG=str(log))
    calls = log.read_text().split()
    assert calls.count("nvmlDeviceGetTemperature") == 1
    assert calls.count("nvmlDeviceGetTotalEnergyConsumption") == 1
    assert calls.count("nvmlDeviceGetPcieReplayCounter") == 3
    assert calls.count("nvmlInitWithFlags") == 1


# The child is a process of the GPU itself; what changes between the two looks is done by the second question.
AROUND = (
    "globals().__setitem__('before', counters.start(nth_gpu(0), Path(os.environ['ROOT'])))",
    "os.environ.update({})",  # filled in
    "msgspec.to_builtins(counters.since(before, GpuReading(power_w=1.0)))",
)


def around(ask: Ask, stub: str, root: Path, pids: str, changes: str = "", **variables: str) -> dict[str, Any]:
    """A reading from before to after ``changes``. "own" in ``pids`` is the number of the process that asks."""
    looks = [AROUND[0], AROUND[1].format("{" + changes + "}"), AROUND[2]]
    own = "os.environ.__setitem__('STUB_PIDS', os.environ['STUB_PIDS'].replace('own', str(os.getpid())))"
    *_, reading = ask(stub, own, *looks, STUB_PIDS=pids, ROOT=str(root), **variables)
    assert isinstance(reading, dict)
    return reading


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A /proc in which this process is in the first PID namespace, and no other can be looked at."""
    return namespace(tmp_path, "pid:[4026531836]")


def namespace(root: Path, name: str) -> Path:
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(name)
    return root


def test_gpu_held_by_this_process_alone_has_no_foreign_ones(ask: Ask, stub: str, outside: Path) -> None:
    reading = around(ask, stub, outside, "own")
    assert (reading["foreign_processes"], reading["missing"], reading["power_w"]) == ([], {}, 1.0)


def test_processes_before_or_after_are_foreign_whatever_they_do(ask: Ask, stub: str, outside: Path) -> None:
    """Of numbers beyond 2^22, which Linux gives to none: 300 may be one that this test's own processes have."""
    changes = "'STUB_PIDS': f'{os.getpid()},5000400,5000500'"
    reading = around(ask, stub, outside, "own,5000300,5000400", changes, STUB_GRAPHICS="5000055", STUB_MPS="5000066")
    found = {process["pid"]: process["memory_bytes"] for process in reading["foreign_processes"]}
    assert found == {pid: pid * 2**20 for pid in (5000300, 5000400, 5000055, 5000066, 5000500)}


def test_hidden_memory_of_a_process_is_unknown(ask: Ask, stub: str, outside: Path) -> None:
    reading = around(ask, stub, outside, "own,5000300", STUB_HIDDEN="1")
    assert reading["foreign_processes"] == [{"pid": 5000300, "memory_bytes": None}]


@pytest.mark.parametrize(("pids", "named"), [("9001,9002", "9001, 9002"), ("", "none")])
def test_list_without_this_process_says_nothing_of_others(
    ask: Ask, stub: str, outside: Path, pids: str, named: str
) -> None:
    reading = around(ask, stub, outside, pids)
    assert reading["foreign_processes"] is None
    assert reading["missing"]["foreign_processes"] == (
        f"the driver lists the processes {named}, and not this one: their numbers are of another PID namespace"
    )


def test_none_in_a_pid_namespace_of_its_own_is_unknown_and_one_is_one(ask: Ask, stub: str, tmp_path: Path) -> None:
    inside = namespace(tmp_path, "pid:[4026532999]")
    alone = around(ask, stub, inside, "own")
    assert alone["foreign_processes"] is None
    assert "the driver may hide" in alone["missing"]["foreign_processes"]
    later = around(ask, stub, inside, "own", "'STUB_PIDS': f'{os.getpid()},5000300'")
    assert [process["pid"] for process in later["foreign_processes"]] == [5000300]
    assert later["missing"] == {}


STARTED = (
    "globals().__setitem__('started', subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE))",
    "os.environ.__setitem__('STUB_PIDS', f'{os.getpid()},{started.pid},{os.getppid()}')",
    "list(counters._foreign_processes(nvml.find(nth_gpu(0)), Path('/')))",
    "[started.communicate(), os.getppid()][1]",
)


def test_process_started_by_this_one_is_its_own_and_its_parent_is_not(ask: Ask, stub: str) -> None:
    *_, foreign, parent = ask(stub, *STARTED)
    assert foreign == [parent]


def write_process(root: Path, pid: int, **files: str) -> None:
    (root / f"proc/{pid}").mkdir(parents=True)
    for name, text in files.items():
        (root / f"proc/{pid}/{name}").write_text(text)


def test_other_workers_of_the_same_run_and_the_mps_server_are_its_own(
    ask: Ask, asked: subprocess.Popen[str], stub: str, outside: Path
) -> None:
    front = asked.pid  # the parent of the process that asks
    of_process = {"comm": "python\n", "stat": "0 (python) S {} 1\n"}
    run, other = (f"python\0-P\0-m\0primbench.workers.worker\0run={each}\0" for each in (7, 8))
    rank = "python\0-P\0-m\0primbench.workers.rank\0005\0001\0"
    write_process(outside, front, comm="pytest\n", stat="0 (a name) S 1 1\n", cmdline="pytest\0")
    (outside / "proc/self/cmdline").write_text(run)
    processes = {31: (front, run), 32: (1, run), 33: (front, "python\0train.py\0"), 35: (1, other), 36: (front, rank)}
    for pid, (parent, command) in processes.items():
        files = {name: text.format(parent) for name, text in of_process.items()}
        write_process(outside, pid, cmdline=command, **files)
    write_process(outside, 34, comm="nvidia-cuda-mps\n", stat="0 (a name) S 1 1\n", cmdline="nvidia-cuda-mps-server\0")
    found = around(ask, stub, outside, "own,31,32,33,34,35,36")["foreign_processes"]
    assert [process["pid"] for process in found] == [33, 35]


def test_mig_instance_is_asked_for_its_own_processes(ask: Ask, stub: str, outside: Path) -> None:
    mig = {"CUDA_VISIBLE_DEVICES": "MIG-0ccc", "STUB_MIG": "1", "STUB_OTHER_INSTANCES": "5000300"}
    reading = around(ask, stub, outside, "own", STUB_GRAPHICS="5000400", **mig)
    assert (reading["foreign_processes"], reading["missing"]) == ([], {})


def test_counters_are_differences_over_the_case(ask: Ask, stub: str, outside: Path) -> None:
    counters = {"STUB_HELD": "1000000000", "STUB_REPLAYS": "12", "STUB_ECC": "4"}
    changes = "'STUB_HELD': '1250000000', 'STUB_REPLAYS': '15', 'STUB_ECC': '5'"
    reading = around(ask, stub, outside, "own", changes, **counters)
    assert reading["held_back_s"] == pytest.approx({"power": 0.25, "thermal": 0.25, "sync boost": 0.25})
    assert (reading["pcie_replays"], reading["ecc_errors_uncorrected"]) == (3, 1)


AROUND_SOURCES = {
    "foreign_processes": "nvmlDeviceGetComputeRunningProcesses_v3",
    "held_back_s": "nvmlDeviceGetFieldValues",
    "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
    "ecc_errors_uncorrected": "nvmlDeviceGetTotalEccErrors",
}


@pytest.mark.parametrize("when", ["always", "after"])
@pytest.mark.parametrize("field", sorted(AROUND_SOURCES))
def test_what_fails_around_a_case_is_unknown_with_its_error(
    ask: Ask, stub: str, outside: Path, field: str, when: str
) -> None:
    fail = f"{AROUND_SOURCES[field]}=3"
    changes, variables = ("", {"STUB_FAIL": fail}) if when == "always" else (f"'STUB_FAIL': {fail!r}", {})
    reading = around(ask, stub, outside, "own", changes, **variables)
    assert reading[field] is None
    assert reading["missing"] == {field: f"{AROUND_SOURCES[field].removesuffix('_v3')}: NVMLError_NotSupported (3)"}


def test_board_without_counters_of_policies_says_so(ask: Ask, stub: str, outside: Path) -> None:
    reading = around(ask, stub, outside, "own", STUB_FAIL="policies=3")
    assert reading["held_back_s"] is None
    assert "no counter of policies: NVML error 3" in reading["missing"]["held_back_s"]


UUIDS = "[gpu.described(nvml.find(nth_gpu(index))).uuid for index in range(nvml.device_count())]"


@pytest.mark.parametrize(
    ("expected", "visible"),
    [
        (["GPU-2aaa0000"], "2"),
        (["GPU-2aaa0000", "GPU-0aaa0000"], "2,0"),
        (["GPU-1aaa0000", "GPU-0aaa0000"], "GPU-1aaa0000, 0"),
        (["GPU-1aaa0000"], "GPU-1"),
        (["GPU-1aaa0000"], "1,7,0"),
        ([], ""),
        ([], "-1"),
        ([], "GPU-"),
        ([], "none"),
        ([], "GPU-9"),
    ],
)
def test_visible_devices_are_those_of_cuda(ask: Ask, stub: str, expected: list[str], visible: str) -> None:
    assert [expected] == ask(stub, UUIDS, CUDA_VISIBLE_DEVICES=visible, STUB_NAMES="H,H,H")


@pytest.mark.parametrize(
    ("expected", "variables"),
    [
        ("MIG-0ccc0000", {"CUDA_VISIBLE_DEVICES": "MIG-0ccc"}),
        ("MIG-0ccc0000", {"CUDA_VISIBLE_DEVICES": "0"}),
        ("MIG-0ccc0000", {"CUDA_VISIBLE_DEVICES": "2,0"}),
        ("MIG-0ccc0000", {}),
        ("GPU-1aaa0000", {"CUDA_VISIBLE_DEVICES": "1"}),
    ],
)
def test_a_mig_instance_is_visible_alone(ask: Ask, stub: str, expected: str, variables: dict[str, str]) -> None:
    assert [[expected]] == ask(stub, UUIDS, STUB_NAMES="H,H,H", STUB_MIG="1", **variables)


def test_without_the_variable_all_boards_are_visible(ask: Ask, stub: str) -> None:
    assert ask(stub, UUIDS, STUB_NAMES="H,H") == [["GPU-0aaa0000", "GPU-1aaa0000"]]


def test_order_of_unlike_gpus_is_not_guessed(ask: Ask, stub: str) -> None:
    (answer,) = ask(stub, "nvml.pci_address(nth_gpu(0))", STUB_NAMES="H200,T400")
    assert "PlacementError: the GPUs differ" in answer
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in answer


def test_unlike_gpus_are_found_by_pci_order_or_uuid(ask: Ask, stub: str) -> None:
    names = {"STUB_NAMES": "H200,T400"}
    address = "nvml.pci_address(nth_gpu(0))"
    assert ask(stub, address, CUDA_DEVICE_ORDER="PCI_BUS_ID", **names) == ["0000:a0:00.0"]
    assert ask(stub, address, CUDA_VISIBLE_DEVICES="GPU-1", **names) == ["0000:a1:00.0"]


def test_mig_instance_is_itself_and_lies_on_its_board(ask: Ask, stub: str) -> None:
    (gpu,) = ask(stub, IDENTITY, CUDA_VISIBLE_DEVICES="MIG-0ccc0000", STUB_MIG="1")
    assert (gpu["name"], gpu["memory_bytes"], gpu["mig"]) == ("NVIDIA H200 MIG 1g.18gb", 18 * 2**30, True)
    assert gpu["pci_address"] == "0000:a0:00.0"
    assert gpu["missing"] == {}


def test_device_out_of_range_is_told_which_there_are(ask: Ask, stub: str) -> None:
    question = "nvml.pci_address(nth_gpu(2))"
    expected = "PlacementError: device=cuda:2: the GPUs to be seen here are cuda:0, cuda:1"
    assert [expected] == ask(stub, question, STUB_NAMES="H,H")
    (answer,) = ask(stub, question, STUB_NAMES="H,H", CUDA_VISIBLE_DEVICES="1")
    assert answer.endswith("cuda:0 (CUDA_VISIBLE_DEVICES=1)")


@pytest.mark.parametrize("device", ["cuda:", "cuda:-1", "gpu", "cpu"])
def test_other_names_of_devices_are_refused(ask: Ask, stub: str, device: str) -> None:
    (answer,) = ask(stub, f"nvml.pci_address(Device.parse({device!r}))")
    assert answer.startswith(f"InvalidRequest: device {device!r}")


def test_pci_address_that_nvml_refuses_is_said(ask: Ask, stub: str) -> None:
    (answer,) = ask(stub, "nvml.pci_address(nth_gpu(0))", STUB_FAIL="nvmlDeviceGetPciInfo_v3=999")
    assert answer.startswith("PlacementError: device=cuda:0: nvmlDeviceGetPciInfo: NVMLError_Unknown (999)")


@pytest.mark.parametrize("failing", ["nvmlInitWithFlags=9", "nvmlDeviceGetCount_v2=999"])
def test_driver_that_does_not_answer_is_a_reason_everywhere(ask: Ask, stub: str, failing: str) -> None:
    questions = [
        "nvml.device_count()",
        "gpu.described(nvml.find(nth_gpu(0))).missing['device']",
        "counters.read_load(nth_gpu(0)).missing['device']",
        "counters.energy_j(nth_gpu(0))[1]",
        "counters.since(counters.start(nth_gpu(0)), GpuReading()).missing['device']",
    ]
    for answer in ask(stub, *questions, STUB_FAIL=failing):
        assert answer.removeprefix("PlacementError: ").startswith("GPUs cannot be found: nvml")
        assert "NVMLError_" in answer


def test_absent_python_module_is_a_reason(ask: Ask) -> None:
    (answer,) = ask("", "sys.modules.__setitem__('pynvml', None) or counters.energy_j(nth_gpu(0))")
    assert answer == [None, "GPUs cannot be found: module 'pynvml' is absent: pip install nvidia-ml-py"]


def test_absent_driver_is_a_reason(ask: Ask) -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has an NVIDIA driver")
    (answer,) = ask("", "counters.read_load(nth_gpu(0)).missing['device']")
    assert answer.startswith("GPUs cannot be found: nvmlInit: NVMLError_")


def test_a_job_s_gpu_is_one_on_which_it_has_a_context(ask: Ask, stub: str) -> None:
    use = "msgspec.to_builtins(gpus.GpuReader(nvml.boards(), contextlib.ExitStack())([31, 32]))"  # one look
    ((gpu,),) = ask(stub, use, STUB_PIDS="31,40", STUB_REASONS="0x4")
    expected = {
        "busy_fraction": 0.4, "memory_fraction": 0.07, "sm_clock_max_hz": 1.98e9, "held_by": {"sw power cap": 1.0},
        "others": [{"pid": 40, "memory_bytes": 40 << 20}],
    }  # fmt: skip
    assert expected == {name: gpu[name] for name in expected}
    if gpu["missing"]:  # they were read at the beginning and the end of a look, which may be too short
        assert {"the counters say nothing of less than 20.0 ms"} == set(gpu["missing"].values())
    else:
        assert (20 << 20, 21 << 20) == (gpu["pcie_sent_bytes_per_s"], gpu["pcie_received_bytes_per_s"])
    assert [[]] == ask(stub, use, STUB_PIDS="40")
    ((gpu,),) = ask(stub, use, STUB_PIDS="31", STUB_FAIL="nvmlDeviceGetUtilizationRates=3")
    assert gpu["busy_fraction"] is None
    assert "NotSupported" in gpu["missing"]["busy_fraction"]


def test_another_process_s_gpus_are_by_context_or_by_its_open_files(ask: Ask, stub: str, tmp_path: Path) -> None:
    (tmp_path / "proc/31/fd").mkdir(parents=True)
    for number, file in enumerate(("/dev/null", "/dev/nvidiactl", "/dev/nvidia1")):
        (tmp_path / f"proc/31/fd/{number}").symlink_to(file)
    found = f"processes.devices_of(Path({str(tmp_path)!r}), 31)"
    numbers = f"[nvml.ask('nvmlDeviceGetMinorNumber', gpu.board) for gpu in {found}]"
    assert [[1]] == ask(stub, numbers, STUB_NAMES="A,B,C")
    assert [[0, 1, 2]] == ask(stub, numbers, STUB_NAMES="A,B,C", STUB_PIDS="31")
    (tmp_path / "proc/31/fd/2").unlink()
    (reason,) = ask(stub, f"(lambda why: [attempt(why, 'gpus', lambda: {found}), why['gpus']][1])({{}})")
    assert "process 31 has no GPU open" == reason
