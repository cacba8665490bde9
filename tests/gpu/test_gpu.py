"""What only a GPU can show: broken contexts, hung kernels, how each time is taken, what a trace holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from primbench import Method, Results, load, measure
from primbench.backends import missing
from primbench.environment.devices import has_gpu_node
from primbench.errors import VerificationError
from primbench.gpu.nvidia import nvml
from primbench.kernels.gemm import Gemm

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]
needs_cupy = pytest.mark.skipif(missing("cupy") is not None, reason=str(missing("cupy")))
QUICK = ("--min-time", "5ms", "--max-time", "50ms")


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: a copy of the package that has the primitive ``gpu_faults``, too."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "primbench", folder / "primbench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).parent / "gpu_faults.py", folder / "primbench/kernels")
    return folder


def run(package: Path, folder: Path, *arguments: str) -> tuple[int, Results]:
    file = folder / "results.jsonl"
    inherited = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", *arguments, *QUICK, "--device", "cuda:0", "-o", str(file)],
        env=os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{inherited}"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert file.exists(), done.stderr
    return done.returncode, load(file)


def faults(*names: str) -> list[str]:
    return ["gpu_faults", "-n", "100000", "--backend", "cupy", *(o for name in names for o in ("--fault", name))]


@needs_cupy
def test_an_illegal_address_and_a_hung_kernel_cost_one_case_each(package: Path, tmp_path: Path) -> None:
    code, results = run(package, tmp_path, *faults("illegal", "none", "hang", "two kernels"), "--timeout", "20s")
    assert 1 == code
    assert ["failed", "ok", "failed", "ok"] == [record.status for record in results.records]
    assert "illegal" in str(results.records[0].reason).lower()
    assert "no answer within 20 s" in str(results.records[2].reason)
    assert 3 == len({worker.pid for worker in results.workers})


@needs_cupy
def test_a_library_that_refuses_capture_is_timed_behind_a_blocking_kernel(package: Path, tmp_path: Path) -> None:
    code, results = run(package, tmp_path, *faults("uncapturable"))
    measured = results.records[0].measurement
    assert 0 == code
    assert measured is not None
    assert measured.device_s is not None
    assert "blocking kernel" == measured.device_s.taken_by
    assert "not captured" in measured.missing["nodes_per_call"]


@needs_cupy
def test_a_call_that_waits_for_the_gpu_has_no_device_time_and_says_why(package: Path, tmp_path: Path) -> None:
    code, results = run(package, tmp_path, *faults("waits"))
    measured = results.records[0].measurement
    assert 0 == code
    assert measured is not None
    assert measured.device_s is None
    assert "waits for the GPU itself" in measured.missing["device_s"]
    assert measured.wall_s is not None


@needs_cupy
def test_a_trace_counts_and_names_kernels(package: Path, tmp_path: Path) -> None:
    code, results = run(package, tmp_path, *faults("none", "two kernels"), "--trace")
    traces = [record.measurement.trace for record in results.records if record.measurement]
    assert 0 == code
    assert [1, 2] == [trace.kernels_per_call for trace in traces if trace]
    assert [["twice"], ["twice"]] == [trace.kernels for trace in traces if trace]


@pytest.mark.parametrize("backend", ["torch", "cupy", "numba"])
def test_every_time_of_a_gemm_is_there(backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    method = Method(min_time_s=0.005, max_time_s=0.05)
    measured = measure(Gemm(256, 256, 256), backend=backend, device="cuda:0", method=method)
    assert measured.verified
    for metric in ("enqueue_s", "enqueue_single_s", "wall_s", "stream_s", "device_s"):
        samples = getattr(measured, metric)
        assert samples is not None
        assert min(samples.samples_s) > 0
    assert measured.device_s is not None
    assert "graph" == measured.device_s.taken_by
    assert measured.nodes_per_call is not None
    assert measured.nodes_per_call >= 1
    assert measured.longest_path_per_call in (None, measured.nodes_per_call), "one stream"
    assert measured.gpu is not None
    assert ["energy_j"] == list(measured.gpu.missing), "of so short a time the board's counter tells nothing"


@needs_cupy
def test_a_wrong_result_is_found_beside_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "tolerance", lambda problem: 0.0)
    with pytest.raises(VerificationError, match=r"^wrong result: error "):
        measure(Gemm(256, 256, 256), backend="cupy", device="cuda:0", method=Method(min_time_s=0.005, max_time_s=0.05))


@needs_cupy
@pytest.mark.usefixtures("idle_gpu")
def test_events_agree_with_the_gpus_own_timer_which_tells_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    from primbench.gpu.nvidia import clock

    method = Method(min_time_s=0.05, max_time_s=0.5)
    usual = measure(Gemm(2048, 2048, 2048), backend="cupy", device="cuda:0", method=method)
    assert "events" not in usual.missing
    monkeypatch.setattr(clock, "_checks", {})
    monkeypatch.setattr(clock, "check", lambda tries: clock.ClockCheck("timer", "asked for"))
    by_timer = measure(Gemm(2048, 2048, 2048), backend="cupy", device="cuda:0", method=method)
    assert "asked for" == by_timer.missing["events"]
    assert usual.device_s is not None
    assert by_timer.device_s is not None
    assert 1 == pytest.approx(by_timer.device_s.median_s / usual.device_s.median_s, abs=0.05)


@needs_cupy
def test_energy_is_counted_over_a_second_and_more() -> None:
    measured = measure(Gemm(2048, 2048, 2048), backend="cupy", device="cuda:0", method=Method(min_time_s=1))
    assert measured.gpu is not None
    assert {} == measured.gpu.missing
    assert measured.gpu.energy_j is not None
    assert measured.gpu.energy_time_s is not None
    assert 50 < measured.gpu.energy_j / measured.gpu.energy_time_s < 1500, "watts of a board"


@pytest.mark.parametrize("asked", [{"cache": "cold"}, {"reuse_bytes": 2**50}, {"reuse_bytes": (0, 2**50)}])
def test_a_cold_cache_rotates_among_sets_beyond_twice_the_l2(asked: dict[str, Any]) -> None:
    from primbench.gpu.nvidia import driver

    method = Method(min_time_s=0.005, max_time_s=0.05, **asked)
    measured = measure(Gemm(512, 512, 512), device="cuda:0", method=method)
    assert measured.input_sets_bytes >= 2 * driver.l2_cache_bytes()
    assert measured.device_s is not None
    assert measured.device_s.calls_per_sample % measured.input_sets == 0


def test_what_does_not_fit_is_skipped_with_both_numbers(package: Path, tmp_path: Path) -> None:
    code, results = run(package, tmp_path, "gemm", "-m", "300000", "-n", "300000", "-k", "300000")
    assert 1 == code, "nothing was measured"
    assert "skipped" == results.records[0].status
    assert "free on" in str(results.records[0].reason)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("backend", ["torch", "cupy"])
def test_two_gpus_add_up_without_a_wrong_element(backend: str, package: Path, tmp_path: Path) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    sizes = ["--bytes", "1KiB", "--bytes", "4MiB", "--dtype", "float32", "--dtype", "bfloat16"]
    code, results = run(package, tmp_path, "allreduce", *sizes, "--backend", backend)
    assert 0 == code, [record.reason for record in results.records]
    for record in results.records:
        assert record.measurement is not None
        assert record.measurement.verified
        assert record.measurement.device_s is not None
        assert "graph" == record.measurement.device_s.taken_by


@pytest.mark.usefixtures("two_gpus")
def test_two_gpus_train_one_model(package: Path, tmp_path: Path) -> None:
    if (reason := missing("torch")) is not None:
        pytest.skip(reason)
    code, results = run(package, tmp_path, "model", "mnist_cnn", "resnet18", "--batch-size", "8", "--ranks", "2")
    assert 0 == code, [record.reason for record in results.records]
    for record in results.records:
        assert record.measurement is not None
        assert record.measurement.verified
        assert {"with_allreduce_s", "without_allreduce_s"} == set(record.measurement.others)


def test_more_ranks_than_gpus_are_skipped_with_both_numbers(package: Path, tmp_path: Path) -> None:
    ranks = nvml.device_count() + 1
    code, results = run(package, tmp_path, "allreduce", "--bytes", "1KiB", "--ranks", str(ranks))
    assert 1 == code, "nothing was measured"
    assert "skipped" == results.records[0].status
    assert f"{ranks} ranks need" in str(results.records[0].reason)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("backend", ["torch", "cupy"])
def test_two_gpus_exchange_without_a_wrong_element(backend: str, package: Path, tmp_path: Path) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    operations = ("all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
    asked = ["--bytes", "1KiB", "--bytes", "4MiB", *(f"--operation={each}" for each in operations)]
    code, results = run(package, tmp_path, "collective", *asked, "--backend", backend)
    assert 0 == code, [record.reason for record in results.records]
    assert 10 == len(results.records)
    assert all(record.measurement and record.measurement.verified for record in results.records)
