"""The process that samples what a case uses: what it sees, what it costs to keep, and that it always ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from primbench.backends import open_backend
from primbench.devices import nth_gpu
from primbench.distributed.group import ALONE, Group
from primbench.errors import UnsupportedCase
from primbench.gpu.nvidia.gpm import LEAST_S
from primbench.kernels.gemm import Gemm
from primbench.measurement.over_time import GPU, HOST, MOST_SAMPLES
from primbench.spec.method import Method
from primbench.timing.case import _why_unwatched, measure
from primbench.timing.sampling import CLOCK, Pace
from primbench.timing.turns import InTurn
from primbench.timing.watcher import INTERVAL_S, MOST_SHARE, Curves, Source, _give_way, watched

from ...processes import children

SOURCE = Path(__file__).parents[1] / "fixtures" / "nvml_stub.c"
ON_CPU = open_backend("numpy", "cpu")
HOLDING = """
held = b"1" * (200 * 2**20)
print(flush=True)
input()
"""


def watchers() -> list[psutil.Process]:
    return children("primbench.timing.watcher")


def test_watcher_asks_for_every_cpu_where_not_all_numbers_are_online(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[int] = set()
    present = {int(each.name[3:]) for each in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")}
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: asked.update(cpus))
    _give_way()
    assert present
    assert present <= asked


def test_a_case_is_sampled_from_its_inputs_to_its_last_sample() -> None:
    method = Method(min_time_s=0.1, max_time_s=0.1, over_time=True)
    start_s = time.monotonic()
    measured = measure(Gemm(64, 64, 64), backend="numpy", device="cpu", method=method)
    lasted_s = time.monotonic() - start_s
    found = measured.over_time
    assert found is not None
    assert "over_time" not in measured.missing
    assert set(HOST) >= set(found.series) >= {"host_rss_bytes"}
    assert set(HOST) - set(found.series) == set(found.missing) - {"host_peak_bytes", "gpu_allocated_peak_bytes"}
    times_s = found.series["host_rss_bytes"].times_s
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0
    assert sum(measured.phases_s.values()) - measured.phases_s["look"] < times_s[-1] < lasted_s
    assert (INTERVAL_S, True) == (found.interval_s, found.cost_s > 0)
    assert found.most_host_bytes is not None
    assert 0.5 * psutil.Process().memory_info().rss < found.most_host_bytes
    assert [] == watchers()


def test_what_a_child_takes_is_seen() -> None:
    missing: dict[str, str] = {}
    with watched(ON_CPU, None, missing) as until_now:
        assert 1 == len(watchers())
        command = [sys.executable, "-c", HOLDING]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            both = [each.memory_full_info() for each in (psutil.Process(), psutil.Process(child.pid))]
            found = until_now()
            child.kill()
    assert {} == missing
    assert found is not None
    assert both[1].uss > 200 * 2**20
    for kind in ("rss", "pss"):
        expected = sum(getattr(each, kind) for each in both)
        assert pytest.approx(expected, abs=50 * 2**20) == found.series[f"host_{kind}_bytes"].values[-1]
    if found.host_peak_bytes is not None:
        assert found.host_peak_bytes < found.series["host_rss_bytes"].peak, "of the process alone"


def test_a_case_that_fails_leaves_no_watcher() -> None:
    with pytest.raises(UnsupportedCase):
        measure(Gemm(64, 64, 64, "bfloat16"), backend="numpy", device="cpu", method=Method(over_time=True))
    assert [] == watchers()


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that has ended may wait for a while to be reaped by whoever has the orphans here."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# A parent that has forked a process, which holds the same pipe open, as a loader of data does.
KILLED = """
import os, time
from primbench.backends import open_backend
from primbench.timing.watcher import watched
with watched(open_backend("numpy", "cpu"), None, {}):
    forked = os.fork()
    if forked:
        print(forked, flush=True)
    time.sleep(60)
"""


def test_it_ends_with_its_parent_even_if_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        forked = int(parent.stdout.readline())
        (watcher,) = [each for each in psutil.Process(parent.pid).children() if each.pid != forked]
        parent.kill()
        try:
            deadline_s = time.monotonic() + 20
            while (alive := is_alive(watcher)) and time.monotonic() < deadline_s:
                time.sleep(0.01)
        finally:
            os.kill(forked, signal.SIGKILL)
    assert not alive


def test_one_that_is_killed_is_a_reason_and_no_failure() -> None:
    missing: dict[str, str] = {}
    with watched(ON_CPU, None, missing) as until_now:
        (watcher,) = watchers()
        watcher.kill()
        assert None is until_now()
    assert missing["over_time"].startswith("watcher was killed by SIGKILL")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.write(2, b'no room'); os._exit(1)", "watcher died of exit status 1: no room"),
        ("print('hello', flush=True)", "what starts with the watcher's Python printed 'hello\\n'"),
    ],
)
def test_one_that_does_not_start_is_a_reason(
    program: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    missing: dict[str, str] = {}
    with watched(ON_CPU, None, missing) as until_now:
        assert None is until_now()
    assert {"over_time": reason} == missing


def test_nothing_is_started_where_nothing_is_to_be_sampled() -> None:
    missing: dict[str, str] = {}
    with watched(ON_CPU, "not today", missing) as until_now:
        assert ([], None) == (watchers(), until_now())
    assert {"over_time": "not today"} == missing


def test_turns_and_further_ranks_are_not_sampled() -> None:
    asked, alone = Method(over_time=True), Pace(CLOCK)
    assert "--over-time was not given" == _why_unwatched(Method(), ALONE, alone)
    assert None is _why_unwatched(asked, ALONE, alone)
    assert "took turns" in str(_why_unwatched(asked, ALONE, InTurn(lambda done: True)))
    assert "this is rank 2" in str(_why_unwatched(asked, Group(2, 3, []), alone))


def test_a_full_series_is_thinned_and_still_covers_all_of_the_time() -> None:
    curves = Curves()
    now_s = 0.0
    for round_number in range(3 * MOST_SAMPLES):
        curves.add(now_s, {"host_rss_bytes": now_s, "group_bytes": None})
        if round_number % 10 == 0:
            curves.add(now_s, {"host_pss_bytes": 1.0})
        curves.thin()
        now_s += curves.interval_s
    found = curves.series()
    cheap, dear = found["host_rss_bytes"], found["host_pss_bytes"]
    assert pytest.approx(32 * INTERVAL_S) == curves.interval_s, "twice as long at 1000 rounds and after every 500"
    assert {"host_rss_bytes", "host_pss_bytes"} == set(found)
    assert MOST_SAMPLES / 2 <= len(cheap.times_s) < MOST_SAMPLES
    gaps = [after - before for before, after in zip(cheap.times_s, cheap.times_s[1:], strict=False)]
    assert pytest.approx(curves.interval_s) == min(gaps)
    assert max(gaps) < 1.6 * curves.interval_s
    assert 0.0 == cheap.times_s[0]
    assert now_s - cheap.times_s[-1] < 2 * curves.interval_s
    assert 300 == len(dear.times_s), "none that is dear was dropped"


def test_a_reader_that_is_dear_is_asked_less_often() -> None:
    def read(missing: dict[str, str]) -> dict[str, float]:
        end_s = time.process_time() + 0.02
        while time.process_time() < end_s:
            pass
        return {"group_bytes": 1.0}

    dear = Source(read)
    assert dear.is_due
    start_s = time.monotonic()
    assert {"group_bytes": 1.0} == dear.values({})
    assert not dear.is_due
    assert dear._due_s - start_s >= 0.02 / MOST_SHARE


@pytest.fixture(scope="module")
def stub(built_stub: Callable[[Path], str]) -> str:
    """A library that stands in for NVML's: no GPU runs here. The watcher that asks it is a real process."""
    return built_stub(SOURCE)


def test_the_watcher_keeps_all_series_of_a_gpu(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher is a real process; only the library that it asks stands in for NVML's."""
    monkeypatch.setenv("LD_PRELOAD", stub)
    monkeypatch.setenv("STUB_PIDS", f"{os.getpid()},5000300")
    backend: Any = types.SimpleNamespace(name="cupy", device=nth_gpu(0))
    missing: dict[str, str] = {}
    with watched(backend, None, missing) as until_now:
        time.sleep(2 * LEAST_S)
        found = until_now()
    assert ({}, set(GPU)) == (missing, set(found.series) & set(GPU) if found else None)
    assert found is not None
    expected = {"gpu_process_bytes": os.getpid() * 2**20, "gpu_device_bytes": 3 * 2**30, "nvml_gpu_fraction": 0.4}
    expected |= {"nvml_memory_fraction": 0.07, "sm_active_fraction": 0.02, "pcie_rx_bytes_per_s": 21 * 2**20}
    assert pytest.approx(expected) == {name: found.series[name].peak for name in expected}


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"STUB_PIDS": "5000300"}, "the driver lists the processes 5000300, and not this one"),
        ({"STUB_PIDS": "own", "STUB_HIDDEN": "1"}, "the driver does not tell how much"),
    ],
    ids=["another namespace", "hidden"],
)
def test_memory_that_the_driver_does_not_tell_is_unknown_and_not_0(
    stub: str, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], reason: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("own", str(os.getpid())))
    monkeypatch.setenv("LD_PRELOAD", stub)
    backend: Any = types.SimpleNamespace(name="cupy", device=nth_gpu(0))
    with watched(backend, None, {}) as until_now:
        found = until_now()
    assert found is not None
    assert "gpu_process_bytes" not in found.series
    assert found.missing["gpu_process_bytes"].startswith(reason)
