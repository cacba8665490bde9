"""`primbench watch` and `primbench doctor --pid` of a process that uses a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from click.testing import Result

from primbench.environment.devices import has_gpu_node

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
    pytest.mark.usefixtures("idle_gpu"),
]

Invoke = Callable[..., Result]
MULTIPLY = (
    "import torch; a = torch.rand(8192, 8192, device='cuda', dtype=torch.bfloat16); (a @ a).sum().item()\n"
    "print(flush=True)\nwhile True:\n    for _ in range(20): a @ a\n    torch.cuda.synchronize()"
)
LAUNCH = "import torch; a = torch.rand(8, device='cuda').sum(); print(flush=True)\nwhile True: a.add_(1).item()"

SMALL_LAYERS = (
    "import torch; model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device='cuda') for _ in range(100)])\n"
    "x, optimizer = torch.rand(1, 64, device='cuda'), torch.optim.SGD(model.parameters(), 1e-3, foreach=False)\n"
    "def step():\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()\n"
    "step(); torch.cuda.synchronize(); print(flush=True)\nwhile True:\n    step()\n    torch.cuda.synchronize()"
)
FROM_PAGEABLE_MEMORY = (
    "import torch; batch, weights = torch.rand(2**16, 2**10), torch.rand(2**10, 2**10, device='cuda')\n"
    "def step(): (batch.to('cuda') @ weights).sum().item()\n"
    "step(); print(flush=True)\nwhile True: step()"
)


@pytest.fixture
def start() -> Iterator[Callable[[str], int]]:
    """``start(program)``: the number of a process with its work on the GPU, until the test ends."""
    pytest.importorskip("torch")
    with ExitStack() as closing:

        def started(program: str) -> int:
            process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
            closing.enter_context(process)
            closing.callback(process.kill)
            assert process.stdout is not None
            assert b"\n" == process.stdout.readline()
            return process.pid

        yield started


def watched(invoke: Invoke, pid: int) -> dict[str, Any]:
    lines = [json.loads(line) for line in invoke("watch", pid, "--for", "4s", "-o", "-").stdout.splitlines()]
    whole = lines[-1]["whole"]
    (gpu,) = whole["gpus"]
    found = [line for line in lines if line["kind"] == "hindrance"]
    return {"whole": whole, "gpu": gpu, "found": found, "causes": [each["cause"] for each in found]}


def not_of_the_tests(processes: list[dict[str, Any]]) -> list[int]:
    """Other tests of this process may have left it a context."""
    return [each["pid"] for each in processes if each["pid"] != os.getpid()]


def test_a_gpu_that_computes_all_the_time(invoke: Invoke, start: Callable[[str], int]) -> None:
    found = watched(invoke, start(MULTIPLY))
    gpu = found["gpu"]
    assert gpu["busy_fraction"] > 0.9
    assert gpu["memory_used_bytes"] > 2**27
    assert 0 < gpu["sm_clock_hz"] <= gpu["sm_clock_max_hz"]
    assert not_of_the_tests(gpu["others"]) == []
    assert "launches" not in found["causes"]


def test_a_step_bound_by_its_launches(invoke: Invoke, start: Callable[[str], int]) -> None:
    launches = watched(invoke, start(SMALL_LAYERS))
    assert "launches" == launches["causes"][0], launches
    assert "copies" not in launches["causes"]
    counted = launches["whole"]["calls"]
    if counted is None:
        assert launches["whole"]["missing"]["calls"]
    else:
        assert sum(each["count"] for each in counted) > 10, "of launches, by uprobes"
        assert any("launches a second" in words for words in launches["found"][0]["evidence"])


def test_a_step_fed_from_pageable_memory(invoke: Invoke, start: Callable[[str], int]) -> None:
    copies = watched(invoke, start(FROM_PAGEABLE_MEMORY))
    assert "copies" == copies["causes"][0], copies
    assert "launches" not in copies["causes"]
    assert "as pageable memory's are" in copies["found"][0]["summary"]
    gpu = copies["gpu"]
    assert gpu["pcie_received_bytes_per_s"] > 10 * gpu["pcie_sent_bytes_per_s"]
    assert gpu["sm_active_fraction"] is not None or gpu["missing"]["sm_active_fraction"]


def test_another_process_on_the_gpu(invoke: Invoke, start: Callable[[str], int]) -> None:
    job, other = start(MULTIPLY), start(LAUNCH)
    found = watched(invoke, job)
    assert [other] == not_of_the_tests(found["gpu"]["others"])
    assert "gpu-processes" in found["causes"]


def test_doctor_looks_at_the_gpus_that_a_process_holds(invoke: Invoke, start: Callable[[str], int]) -> None:
    job, other = start(MULTIPLY), start(LAUNCH)
    document = json.loads(invoke("doctor", job, "--json", "-").stdout)
    (gpu,) = document["place"]["environment"]["devices"]["gpus"]
    assert gpu["uuid"].startswith("GPU-")
    assert [[other]] == list(map(not_of_the_tests, document["place"]["contention"]["gpu_processes"]))
    (found,) = [each for each in document["findings"] if each["check"] == "gpu-processes"]
    assert "other processes hold cuda:0" in found["summary"]
