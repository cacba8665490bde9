"""`primbench numa` end to end, on the nodes that there are here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primbench import backends
from primbench.environment.devices import has_gpu_node
from primbench.numa import mempolicy, scan
from primbench.results import file as results_file
from primbench.system.files import attempt

COMMAND = (sys.executable, "-P", "-m", "primbench", "numa")
SMALL = ("--device", "cpu", "--rounds", "2", "--bytes", "1MiB")
UNDER_A_FILTER = (
    sys.executable, "-P", str(Path(__file__).parents[2] / "seccomp.py"), "--deny", "mbind,set_mempolicy", "--",
)  # fmt: skip


def run(*arguments: Any, before: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*before, *COMMAND, *map(str, arguments)]
    variables = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=variables, check=False)


def own_nodes() -> list[int]:
    """Those with CPUs and with memory that this process may use."""
    place = scan.collect(gpus=False)
    assert place.nodes is not None
    allowed = os.sched_getaffinity(0)
    found = [node.id for node in place.nodes if allowed & set(node.cpus) and node.has_memory and node.allowed]
    assert found
    return found


def is_chased() -> bool:
    return backends.missing("numba") is None


def is_bindable() -> bool:
    denied: dict[str, str] = {}
    attempt(denied, "mbind", lambda: mempolicy.probe("mbind"))
    return not denied


@pytest.mark.wheel
@pytest.mark.skipif(not is_bindable(), reason="mbind(2) is denied here: needs root outside of containers")
def test_every_cell_of_the_host_is_timed_in_fresh_processes(tmp_path: Path) -> None:
    results = tmp_path / "raw.jsonl"
    done = run(*SMALL, "--seed", 5, "--json", "-", "-o", results)
    assert (0, "") == (done.returncode, done.stderr)
    found, nodes = json.loads(done.stdout), own_nodes()
    assert (nodes, None, 2, 5, 2**20) == (
        found["axes"]["cpu_nodes"], found["axes"]["first_touch"], found["rounds"], found["seed"], found["size_bytes"],
    )  # fmt: skip
    assert ["h2h", "chase"][: 1 + is_chased()] == [matrix["kind"] for matrix in found["matrices"]]
    for matrix in found["matrices"]:
        places = [(cell["cpu_node"], cell["memory_node"]) for cell in matrix["cells"]]
        assert [(cpu, memory) for cpu in nodes for memory in found["axes"]["memory_nodes"]] == places
        assert [True] == [cell["is_nearest"] for cell in matrix["cells"] if cell["is_nearest"]]
        assert all({"0", "1"} == cell["times_s"].keys() and cell["median_s"] > 0 for cell in matrix["cells"])
    raw = results_file.read(results)
    assert len(raw.records) == sum(2 * len(matrix["cells"]) for matrix in found["matrices"])
    assert 2 * len(nodes) <= len({worker.pid for worker in raw.workers})
    placed = {worker.worker: worker.placement.cpus for worker in raw.workers}
    cpus = {node.id: set(node.cpus) & os.sched_getaffinity(0) for node in scan.memory_nodes()}
    for each in raw.records:
        assert each.worker is not None
        assert each.case.placement.cpu_node is not None
        assert cpus[each.case.placement.cpu_node] == set(placed[each.worker])
        assert f"{each.case.process}" == each.case.labels["round"]
        assert each.measurement is not None
        assert each.measurement.pages is not None
        assert {int(each.case.labels["memory_node"])} == set(each.measurement.pages.by_node)


@pytest.mark.wheel
def test_where_binding_is_denied_memory_follows_the_thread() -> None:
    """As under Docker's default profile."""
    done = run(*SMALL, "--rounds", 1, "--json", "-", before=UNDER_A_FILTER)
    assert (0, "") == (done.returncode, done.stderr)
    found = json.loads(done.stdout)
    assert 1 == found["axes"]["first_touch"].count("allow it (docker run --cap-add SYS_NICE)")
    assert "EPERM" in found["axes"]["first_touch"]
    for matrix in found["matrices"]:
        for cell in matrix["cells"]:
            together = cell["cpu_node"] == cell["memory_node"]
            assert together == bool(cell["times_s"])
            assert together or "memory cannot be bound" in cell["reason"]


def test_results_file_that_is_there_is_left_alone(refusal: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text("kept")
    assert f"{path}: exists; replace it with --overwrite" == refusal("numa", "--device", "cpu", "-o", path)
    assert "a.csv: -o writes a results file, as a.jsonl (see" in refusal("numa", "-o", "a.csv")
    assert "kept" == path.read_text()


@pytest.mark.wheel
def test_without_a_compiler_the_latency_is_missing_with_the_reason(tmp_path: Path) -> None:
    """Numba hidden from every process by a module of its name that cannot be found: a place without it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['numba'] = None\n")
    done = run(*SMALL, "--rounds", 1, PYTHONPATH=str(tmp_path))
    assert (0, "") == (done.returncode, done.stderr)
    assert "h2h" in done.stdout
    assert "chase was not measured: chase has no backend on a CPU here: " in done.stdout
    assert "numba: module 'numba' is not" in done.stdout


@pytest.mark.skipif(has_gpu_node(), reason="needs a machine without a GPU: here numa takes the GPUs")
def test_without_a_gpu_the_host_is_measured() -> None:
    done = run("--rounds", 1, "--bytes", "1MiB")
    assert (0, "") == (done.returncode, done.stderr)
    assert "host  1 MiB" in done.stdout


def test_failed_case_is_exit_code_1_and_its_reason_is_in_the_matrix() -> None:
    done = run(*SMALL, "--rounds", 1, "--timeout", "1us")
    assert 1 == done.returncode
    assert "memory node 0: no answer within 1e-06 s (--timeout)" in done.stdout


def test_sigterm_leaves_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    command = [*COMMAND, *SMALL, "--rounds", "500", "-o", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 180
        while not (path.exists() and b'"kind":"record"' in path.read_bytes()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        stdout, stderr = running.communicate(timeout=100)
    assert 128 + signal.SIGTERM == running.returncode
    assert " cases in 500 processes; " in stderr.splitlines()[0]
    assert "\nStopped after " in stderr
    assert "h2h" in stdout or "a load" in stdout
    assert results_file.read(path).records


REFUSED = [
    (("--rounds", "0"), "Invalid value for '--rounds'"),
    (("--bytes", "7"), "Invalid value for '--bytes'"),
    (("--bytes", "0B"), "--bytes 0: a whole number of at least 1"),
    (("--json", "/nosuch/x.json"), "there is no folder /nosuch"),
    (("--json", "x", "-o", "x"), "asked to hold two things"),
    (("--device", "gpu0"), "--device gpu0: cpu, cuda:N (N from 0) or all"),
    (("--backend", "nosuch"), "backend 'nosuch'"),
    (("--backend", "numpy,torch"), "backend 'numpy,torch': name each by itself"),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_bad_request_says_what_is_wrong(arguments: tuple[str, ...], reason: str, refusal: Callable[..., str]) -> None:
    assert reason in refusal("numa", "--device", "cpu", *arguments)
