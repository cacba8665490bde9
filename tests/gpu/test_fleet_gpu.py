"""A fleet of two nodes of a GPU each, which are processes of this machine, by the variables of Slurm's srun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result

from primbench.environment.devices import has_gpu_node

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]

PRODUCTS = ("gemm", "-m", "512", "-m", "4096", "-n", "4096", "-k", "4096")


def started(node: int, folder: Path) -> subprocess.Popen[str]:
    variables = {
        "SLURM_PROCID": node, "SLURM_STEP_NUM_TASKS": 2, "SLURM_LOCALID": 0, "SLURM_STEP_NUM_NODES": 2,
        "SLURM_NODEID": node, "SLURM_STEP_NODELIST": "n[0-1]", "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0,
        "SLURMD_NODENAME": f"n{node}", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": node,
    }  # fmt: skip
    torch_there = ["--backend", "torch", "--device", "cuda:0", "--max-time", "100ms", "--links", "1"]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "primbench", *PRODUCTS, *torch_there, "--fleet", folder],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.usefixtures("two_gpus")
def test_two_nodes_and_the_link_between_their_gpus(invoke: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    nodes = [started(node, tmp_path) for node in range(2)]
    try:
        said = [node.communicate(timeout=200) for node in nodes]
    finally:
        for node in nodes:
            with suppress(OSError):
                node.kill()
    assert [0, 0] == [node.returncode for node in nodes], said
    result = invoke("fleet", tmp_path, "--json", "-")
    found = json.loads(result.stdout)
    assert (0, ["n0", "n1"], [], ["n0+n1"]) == (
        result.exit_code, found["nodes"], found["missing"], found["links"]["nodes"],
    ), found  # fmt: skip
    assert found["cases"], found
    assert all(case["unmeasured"] == {} for case in found["unhealthy"]), found
