"""A fleet of two nodes of a GPU each, by torchrun: on this machine, but for what it is called."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.environment.devices import has_gpu_node

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu_node(), reason="needs an NVIDIA GPU: no /dev/nvidia* here"),
]

PRODUCTS = ("gemm", "-m", "512", "-m", "4096", "-n", "4096", "-k", "4096")
NAMED = 'hostname "$1"; shift; exec "$@"'  # a machine of that name, as all in it see it
BRIEFLY = "timeout:1 attempts:1"  # torchrun asks for these names again and again; a silent name server takes 10 s


def started(node: int, port: int, folder: Path) -> subprocess.Popen[str]:
    """With the GPU of that number among those that this process may use, and no other."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[node]
    where = [f"--node-rank={node}", "--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *where, f"--master-port={port}", "-m", "primbench"]
    brief = ["--backend", "torch", "--device", "cuda:0", "--max-time", "100ms", "--links", "1"]
    return subprocess.Popen(
        ["unshare", "--uts", "sh", "-euc", NAMED, "sh", f"n{node}", *torchrun, *PRODUCTS, *brief, "--fleet", folder],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "NCCL_HOSTID": "one", "RES_OPTIONS": BRIEFLY},
        cwd=folder.parent,  # torchrun puts the current folder ahead of what is installed
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def what_it_said(node: subprocess.Popen[str], ends: float) -> tuple[str, str]:
    """ends: in time.monotonic()'s seconds, when it is told to end, upon which torchrun ends its worker as well."""
    try:
        return node.communicate(timeout=max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        node.terminate()
        return node.communicate(timeout=60)


@pytest.mark.usefixtures("two_gpus")
def test_two_nodes_and_the_link_between_their_gpus(invoke: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if os.geteuid():
        pytest.skip("needs root, who may call a machine otherwise")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nodes = [started(node, port, tmp_path / "fleet") for node in range(2)]
    ends = time.monotonic() + 120
    said = [what_it_said(node, ends) for node in nodes]
    assert [0, 0] == [node.returncode for node in nodes], said
    result = invoke("fleet", tmp_path / "fleet", "--json", "-")
    found = json.loads(result.stdout)
    assert (0, ["n0", "n1"], [], ["n0+n1"]) == (
        result.exit_code, found["nodes"], found["missing"], found["links"]["nodes"],
    ), found  # fmt: skip
    assert found["cases"], found
    assert all(case["unmeasured"] == {} for case in found["unhealthy"]), found
