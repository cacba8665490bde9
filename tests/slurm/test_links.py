"""Links between nodes that are network namespaces of this machine, joined by a bridge; one link is slowed down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from click.testing import Result

NODES = 4
SLOW = (1, 3)  # from one to the other
RATE = "200mbit"


def ran(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)


def address(node: int) -> str:
    return f"10.77.0.{node + 1}"


@pytest.fixture
def namespaces() -> Iterator[list[str]]:
    """One a node, by name, each with eth0. Skips where none can be made."""
    names = [f"primbench-{os.getpid()}-{node}" for node in range(NODES)]
    bridge = f"primbench-{os.getpid()}-bridge"
    with ExitStack() as closing:
        try:
            for name in (bridge, *names):
                ran("ip", "netns", "add", name)
                closing.callback(ran, "ip", "netns", "delete", name)
            ran("ip", "-n", bridge, "link", "add", "name", "nodes", "type", "bridge")
            ran("ip", "-n", bridge, "link", "set", "nodes", "up")
            for node, name in enumerate(names):
                join(bridge, node, name)
            slow_down(names[SLOW[0]], address(SLOW[1]))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"needs root's leave to make network namespaces, and iproute2: {error}")
        yield names


def join(bridge: str, node: int, name: str) -> None:
    port = f"node{node}"
    ran("ip", "-n", bridge, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
    ran("ip", "-n", bridge, "link", "set", port, "master", "nodes", "up")
    ran("ip", "-n", name, "link", "set", "lo", "up")
    ran("ip", "-n", name, "address", "add", f"{address(node)}/24", "dev", "eth0")
    ran("ip", "-n", name, "link", "set", "eth0", "up")


def slow_down(name: str, towards: str) -> None:
    """What goes to one address, and nothing else: tc-htb(8)."""
    tc = ("ip", "netns", "exec", name, "tc")
    ran(*tc, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "10")
    for number, rate in (("10", "100gbit"), ("20", RATE)):
        ran(*tc, "class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{number}", "htb", "rate", rate)
    match = ("u32", "match", "ip", "dst", towards, "flowid", "1:20")
    ran(*tc, "filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", *match)


def started(node: int, name: str, folder: Path) -> subprocess.Popen[str]:
    variables = {
        "SLURM_PROCID": node, "SLURM_STEP_NUM_TASKS": NODES, "SLURM_LOCALID": 0, "SLURM_STEP_NUM_NODES": NODES,
        "SLURM_NODEID": node, "SLURM_STEP_NODELIST": f"n[0-{NODES - 1}]", "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0,
        "SLURMD_NODENAME": f"n{node}", "SLURM_LAUNCH_NODE_IPADDR": address(0), "GLOO_SOCKET_IFNAME": "eth0",
    }  # fmt: skip
    primbench = [sys.executable, "-P", "-m", "primbench", "gemm", "-m16", "-n16", "-k16", "--backend", "numpy"]
    brief = ["--device", "cpu", "--threads", "1", "--min-time", "5ms", "--max-time", "50ms", "--links", "9"]
    return subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{name}", *primbench, *brief, "--fleet", folder],
        env={**os.environ, **{key: str(value) for key, value in variables.items()}},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_link_with_less_bandwidth_is_the_one_that_is_found(
    invoke: Callable[..., Result], namespaces: list[str], tmp_path: Path, ahead_of_others: None
) -> None:
    pytest.importorskip("torch")
    nodes = [started(node, name, tmp_path) for node, name in enumerate(namespaces)]
    try:
        said = [node.communicate(timeout=200) for node in nodes]
    finally:
        for node in nodes:
            with suppress(OSError):
                node.kill()
    assert [0] * NODES == [node.returncode for node in nodes], said
    result = invoke("fleet", tmp_path, "--json", "-")
    links = json.loads(result.stdout)["links"]
    assert (1, 6, 0) == (result.exit_code, len(links["nodes"]), links["unnamed"])
    slowest = links["unhealthy"][0]
    assert ("n1+n3", {}) == (slowest["node"], slowest["unmeasured"]), links["unhealthy"]
    assert max(each["ratio"] for each in slowest["outlying"]) > 3
    assert links["ends"] == []
