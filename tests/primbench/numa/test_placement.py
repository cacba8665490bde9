"""Placing changes the process for good, so that each real placement happens in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.devices import nth_gpu
from primbench.errors import PlacementError
from primbench.gpu.nvidia import nvml
from primbench.numa import mempolicy, placement
from primbench.numa.placement import EffectivePlacement
from primbench.numa.scan import memory_nodes
from primbench.spec.placement import Placement
from primbench.system.files import format_cpu_list

NODE = "sys/devices/system/node"
MINE = sorted(os.sched_getaffinity(0))
FIRST = MINE[0]
SLOW = format_cpu_list([*MINE[1:], 5000])

# Applies a placement and tells what this process, the kernel's own files and the environment say of it.
CHILD = """
import json, os, re, sys, threading
from pathlib import Path
import msgspec
from primbench.devices import CPU, Device, nth_gpu
from primbench.numa import mempolicy, placement
from primbench.errors import PlacementError
asked = msgspec.convert(json.loads(sys.argv[1]), placement.Placement)
{before}
try:
    said = msgspec.to_builtins(placement.apply(asked, Device(CPU), Path(sys.argv[2])))
except PlacementError as error:
    said = str(error)
{after}
print(json.dumps({{
    "said": said,
    "cpus_allowed": re.findall(r"Cpus_allowed_list:\\s*(\\S+)", Path("/proc/self/status").read_text())[0],
    "bound_by_kernel": " bind:" in Path("/proc/self/numa_maps").read_text(),
    "threads": {{name: os.environ.get(name) for name in placement.THREAD_VARIABLES}},
    "modules": sorted({{"numpy", "torch", "pynvml", "threadpoolctl"}} & set(sys.modules)),
    "extra": globals().get("extra"),
}}))
"""

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")


def place(
    asked: dict[str, Any], root: str = "/", before: str = "", after: str = "", deny: str = "", error: str = "EPERM"
) -> dict[str, Any]:
    """deny: system calls, separated by commas, that a real filter refuses to the child."""
    code = CHILD.format(before=before, after=after)
    filtered = [sys.executable, "-P", SECCOMP, "--errno", error, "--deny", deny, "--"] if deny else []
    child = [*filtered, sys.executable, "-P", "-c", code, json.dumps(asked), root]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def machine(root: Path, nodes: dict[int, str], memory: str, allowed: str) -> str:
    """A root folder whose nodes have the given CPU lists."""
    files = {f"{NODE}/node{node}/cpulist": cpus for node, cpus in nodes.items()}
    files |= {f"{NODE}/online": format_cpu_list(nodes), f"{NODE}/has_memory": memory}
    for name, text in (files | {"proc/self/status": f"Mems_allowed_list:\t{allowed}\n"}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def real_node() -> int:
    """A node of this machine that has memory and CPUs for this process."""
    return next(node.id for node in memory_nodes() if node.has_memory and node.allowed and set(node.cpus) & set(MINE))


def denied_here() -> list[str]:
    """The memory calls that this process may not make, as in a container with Docker's profile."""
    refused = []
    for call in ("get_mempolicy", "set_mempolicy"):
        try:
            mempolicy.probe(call)
        except OSError:
            refused.append(call)
    return refused


needs_mempolicy = pytest.mark.skipif(
    bool(denied_here()), reason="the memory policy may not be set here: needs root outside of containers"
)


def test_nothing_asked_changes_nothing() -> None:
    found = place({})
    assert found["said"]["cpus"] == MINE
    assert found["said"]["rung"] == "none"
    assert {None} == set(found["threads"].values())


def test_cpus_are_bound_and_the_kernel_agrees() -> None:
    found = place({"cpus": [FIRST]})
    assert found["said"]["cpus"] == [FIRST]
    assert str(FIRST) == found["cpus_allowed"]
    assert found["said"]["rung"] == "first touch"


def test_threads_already_running_are_bound_too() -> None:
    before = """
go, ids = threading.Event(), []
worker = threading.Thread(target=lambda: (ids.append(threading.get_native_id()), go.wait()))
worker.start()
while not ids: pass
"""
    found = place(
        {"cpus": [FIRST]},
        before=before,
        after="extra = sorted(os.sched_getaffinity(ids[0])); go.set(); worker.join()",
    )
    assert found["extra"] == [FIRST]


def test_node_is_bound_as_the_kernel_shows_it() -> None:
    """numa_maps is the second witness: where the call is denied it shows no policy, and the rung tells."""
    node = real_node()
    found = place({"numa_node": node})
    bound = found["bound_by_kernel"]
    assert ("bind" if bound else "first touch") == found["said"]["rung"]
    assert ([node] if bound else []) == (found["said"]["memory_nodes"] or [])


def test_cpus_and_node_are_two_axes() -> None:
    found = place({"cpus": [FIRST], "numa_node": real_node()})
    assert found["said"]["cpus"] == [FIRST]
    assert found["said"]["rung"] in ("bind", "first touch")


def kinds(root: Path) -> str:
    """A machine whose quick CPU is the first of this one; the slow ones are the others and one that nobody has."""
    files = {f"cpu{cpu}/cpu_capacity": "400" for cpu in [*MINE, 5000]} | {f"cpu{FIRST}/cpu_capacity": "1024"}
    for name, text in (files | {"online": format_cpu_list([*MINE, 5000])}).items():
        path = root / "sys/devices/system/cpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.parametrize("node", [None, 1])
def test_cpus_of_a_kind_are_bound_on_all_nodes_or_on_one(tmp_path: Path, node: int | None) -> None:
    machine(tmp_path, {0: format_cpu_list(MINE[1:]), 1: f"{FIRST}"}, memory="0-1", allowed="0-1")
    found = place({"cpu_kind": "performance", "cpu_node": node}, kinds(tmp_path))["said"]
    assert ([FIRST], "first touch", [1]) == (found["cpus"], found["rung"], found["page_nodes"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"cpu_kind": "quick"},
            f"cpu_kind=quick: this machine has performance (CPUs {FIRST}), efficiency (CPUs {SLOW})",
        ),
        (
            {"cpu_kind": "efficiency", "cpu_node": 1},
            f"cpu_node=1 cpu_kind=efficiency: CPUs of that kind are {SLOW}, and the choice here is {FIRST}",
        ),
    ],
    ids=str,
)
def test_kind_that_cannot_be_had_is_refused_with_those_there_are(
    tmp_path: Path, asked: dict[str, Any], message: str
) -> None:
    machine(tmp_path, {0: format_cpu_list(set(MINE) - {FIRST}), 1: f"{FIRST}"}, memory="0-1", allowed="0-1")
    assert message == place(asked, kinds(tmp_path))["said"]


def test_kinds_that_are_one_or_not_told_are_said(tmp_path: Path) -> None:
    root = kinds(tmp_path)
    (tmp_path / f"sys/devices/system/cpu/cpu{FIRST}/cpu_capacity").write_text("400")
    said = place({"cpu_kind": "performance"}, root)["said"]
    assert said == "cpu_kind=performance: all CPUs of this machine are of one kind; leave it out"
    (tmp_path / "sys/devices/system/cpu/cpu5000/cpu_capacity").unlink()
    said = place({"cpu_kind": "performance"}, root)["said"]
    assert said.startswith("cpu_kind=performance: this machine does not tell its kinds of CPUs (")


def test_absent_node_is_refused_with_those_there_are(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    expected = "numa_node=5: this machine has nodes 0-1 (from /sys/devices/system/node/online)"
    assert expected == place({"numa_node": 5}, root)["said"]


def test_node_outside_the_cpuset_is_refused(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 8: ""}, memory="0,8", allowed="0")
    assert "may use memory of node 0 only" in place({"numa_node": 8}, root)["said"]


def test_node_whose_cpus_are_out_of_reach_is_refused(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: "5000-5001"}, memory="0", allowed="0")
    assert f"may run on {format_cpu_list(MINE)} only" in place({"numa_node": 0}, root)["said"]


def test_machine_that_hides_its_nodes_is_said(tmp_path: Path) -> None:
    expected = (
        f"numa_node=0: this machine does not tell its nodes ({tmp_path}/{NODE} is absent: a kernel without NUMA, "
        "or hidden)"
    )
    assert expected == place({"numa_node": 0}, str(tmp_path))["said"]


def test_unavailable_cpus_are_refused_with_those_allowed() -> None:
    found = place({"cpus": [FIRST, 5000]})
    assert f"cpus={FIRST},5000: this process may run on CPUs {format_cpu_list(MINE)} only" == found["said"]
    assert format_cpu_list(MINE) == found["cpus_allowed"]


@needs_mempolicy
def test_node_without_cpus_binds_memory_only(tmp_path: Path) -> None:
    node = real_node()
    found = place({"numa_node": node}, machine(tmp_path, {node: ""}, memory=str(node), allowed=str(node)))
    assert found["said"]["cpus"] == MINE
    assert found["said"]["rung"] == "bind"
    assert found["said"]["reasons"]["cpus"].startswith(f"node {node} has no CPUs, and the kernel tells none near it")


def with_initiator(root: Path, node: int, initiator: int) -> str:
    (root / NODE / f"node{node}/access0/initiators/node{initiator}").mkdir(parents=True)
    return str(root)


@needs_mempolicy
def test_node_without_cpus_binds_threads_to_those_that_reach_it_best(tmp_path: Path) -> None:
    """The node of this machine stands for HBM, whose near CPUs are of another node of the recorded one."""
    node = real_node()
    machine(tmp_path, {node: "", node + 1: f"{FIRST}"}, memory=f"{node}-{node + 1}", allowed=f"{node}-{node + 1}")
    found = place({"numa_node": node}, with_initiator(tmp_path, node, node + 1))["said"]
    assert ([FIRST], "bind", [node], {}) == (found["cpus"], found["rung"], found["page_nodes"], found["reasons"])


def test_near_cpus_out_of_reach_are_refused(tmp_path: Path) -> None:
    machine(tmp_path, {0: "5000", 2: ""}, memory="0,2", allowed="0,2")
    said = place({"numa_node": 2}, with_initiator(tmp_path, 2, 0))["said"]
    assert f"numa_node=2: it has CPUs 5000, and this process may run on {format_cpu_list(MINE)} only" == said


@pytest.mark.parametrize("allowed", ["1", ""])
def test_pages_are_asked_for_nowhere_where_the_near_node_may_not_be_used(tmp_path: Path, allowed: str) -> None:
    """As under ``docker run --cpuset-cpus 0 --cpuset-mems 1``; where the kernel does not say, the near node is."""
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed=allowed)
    found = place({"cpu_node": 0}, root)["said"]
    assert ("first touch", [] if allowed else [0]) == (found["rung"], found["page_nodes"])


def test_node_without_memory_binds_cpus_only(tmp_path: Path) -> None:
    root = machine(tmp_path, {3: str(FIRST)}, memory="", allowed="")
    found = place({"numa_node": 3}, root)
    assert found["said"]["cpus"] == [FIRST]
    assert found["said"]["rung"] == "first touch"
    assert "node 3 has no memory" in found["said"]["reasons"]["memory_policy"]


def test_denied_mempolicy_leaves_first_touch_and_names_the_error() -> None:
    found = place({"numa_node": real_node()}, deny="set_mempolicy")
    assert found["said"]["rung"] == "first touch"
    assert found["said"]["reasons"]["set_mempolicy"].endswith("EPERM")
    assert not found["bound_by_kernel"]


def test_policy_that_cannot_be_read_back_is_unknown() -> None:
    found = place({"numa_node": real_node()}, deny="get_mempolicy")
    assert None is found["said"]["memory_policy"]
    assert found["said"]["rung"] == "first touch"
    assert found["said"]["reasons"]["get_mempolicy"].endswith("EPERM")


def test_denied_mempolicy_with_cpus_elsewhere_cannot_be_met(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    said = place({"cpus": [FIRST], "numa_node": 1}, root, deny="set_mempolicy")["said"]
    assert "numa_node=1: memory cannot be bound there" in said
    assert "EPERM" in said


@needs_mempolicy
def test_inherited_policy_is_not_taken_for_first_touch() -> None:
    """As under ``numactl --interleave``: pages then do not follow the CPU that touches them."""
    before = f"mempolicy.set_policy('interleave', [{real_node()}])"
    found = place({"cpus": [FIRST]}, before=before)["said"]
    assert ("interleave", "none") == (found["memory_policy"], found["rung"])
    assert [real_node()] == found["page_nodes"]


@needs_mempolicy
@pytest.mark.parametrize("policy", ["bind", "preferred", "interleave"])
def test_memory_is_taken_by_the_policy_that_was_asked_for(policy: str) -> None:
    node = real_node()
    found = place({"mem_nodes": [node], "mem_policy": policy})["said"]
    assert (policy, [node], "bind") == (found["memory_policy"], found["memory_nodes"], found["rung"])
    assert (MINE, [node]) == (found["cpus"], found["page_nodes"])


@needs_mempolicy
def test_local_memory_replaces_a_policy_that_was_inherited() -> None:
    before = f"mempolicy.set_policy('bind', [{real_node()}])"
    found = place({"mem_policy": "local"}, before=before)["said"]
    assert ("local", [], "first touch") == (found["memory_policy"], found["memory_nodes"], found["rung"])
    assert [] == found["page_nodes"]


def test_threads_alone_go_to_a_node(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE[1:]), 1: f"{FIRST}"}, memory="0-1", allowed="0-1")
    found = place({"cpu_node": 1}, root)["said"]
    assert ([FIRST], "first touch", [1]) == (found["cpus"], found["rung"], found["page_nodes"])
    assert (None if "get_mempolicy" in found["reasons"] else "default") == found["memory_policy"]


@needs_mempolicy
def test_threads_and_memory_are_placed_apart(tmp_path: Path) -> None:
    """Node 1 of the recorded machine has this one's first CPU, and its node 0 this one's memory."""
    node = real_node()
    root = machine(tmp_path, {node: "", node + 1: f"{FIRST}"}, memory=f"{node}", allowed=f"{node}")
    for asked in ({"cpu_node": node + 1, "mem_nodes": [node]}, {"numa_node": node + 1, "mem_nodes": [node]}):
        found = place(asked, root)["said"]
        assert ([FIRST], "bind", [node]) == (found["cpus"], found["rung"], found["page_nodes"])


def test_denied_memory_of_another_node_is_refused_with_the_way_out(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    said = place({"cpu_node": 0, "mem_nodes": [1]}, root, deny="set_mempolicy,mbind")["said"]
    assert said.startswith("mem_nodes=1: memory cannot be bound there (set_mempolicy: Operation not permitted: ")
    assert "allow it (docker run --cap-add SYS_NICE): EPERM" in said
    assert f"first touch by CPUs {format_cpu_list(MINE)} does not do" in said


def test_denied_memory_of_the_own_node_comes_by_first_touch() -> None:
    node = real_node()
    found = place({"cpu_node": node, "mem_nodes": [node]}, deny="set_mempolicy", error="ENOSYS")["said"]
    assert ("first touch", [node]) == (found["rung"], found["page_nodes"])
    assert found["reasons"]["set_mempolicy"].endswith("ENOSYS")


def test_denied_turns_among_nodes_are_refused(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    asked = {"mem_nodes": [0, 1], "mem_policy": "interleave"}
    said = place(asked, root, deny="set_mempolicy")["said"]
    assert said.startswith("mem_nodes=0-1 mem_policy=interleave: memory cannot be bound there")


@needs_mempolicy
def test_a_node_that_the_kernel_leaves_out_unasked_is_seen(tmp_path: Path) -> None:
    """It takes the nodes of a mask that it has, and reports success."""
    node = real_node()
    root = machine(tmp_path, {node: format_cpu_list(MINE), 900: ""}, memory=f"{node},900", allowed=f"{node},900")
    said = place({"mem_nodes": [node, 900]}, root)["said"]
    assert said.startswith(f"mem_nodes={node},900: memory cannot be bound there (bind)")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cpu_node": 5}, "cpu_node=5: this machine has nodes 0-2"),
        ({"cpu_node": 1}, "cpu_node=1: it has no CPUs to run on: use nodes 0,2, or ask for its memory alone"),
        ({"numa_node": 1, "mem_nodes": [0]}, "numa_node=1: it has no CPUs to run on"),
        ({"cpu_node": 2}, "cpu_node=2: it has CPUs 5000, and this process may run on"),
        ({"mem_nodes": [0, 5]}, "mem_nodes=0,5: this machine has nodes 0-2"),
        ({"mem_nodes": [2]}, "mem_nodes=2: node 2 has no memory; there is memory for this process on node 0"),
        ({"mem_nodes": [0, 1]}, "mem_nodes=0-1: this process may use memory of node 0 only (from Mems_allowed_list"),
        ({"numa_node": 0, "mem_nodes": [1]}, "mem_nodes=1: this process may use memory of node 0 only"),
    ],
    ids=str,
)
def test_what_cannot_be_met_names_what_there_is(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: "", 2: "5000"}, memory="0-1", allowed="0")
    assert message in place(asked, root)["said"]


def test_node_that_the_kernel_refuses_falls_to_first_touch(tmp_path: Path) -> None:
    root = machine(tmp_path, {1000: str(FIRST)}, memory="1000", allowed="1000")
    found = place({"numa_node": 1000}, root)
    assert (found["said"]["rung"], found["said"]["cpus"]) == ("first touch", [FIRST])
    assert found["said"]["reasons"]["set_mempolicy"].endswith(("EINVAL", "EPERM", "ENOSYS"))


def test_unknown_processor_binds_cpus_only() -> None:
    found = place({"numa_node": real_node()}, before="mempolicy.SYSTEM_CALLS.clear()")
    assert found["said"]["rung"] == "first touch"
    assert "is not known" in found["said"]["reasons"]["set_mempolicy"]


def test_thread_count_reaches_every_library_before_it_loads() -> None:
    found = place({"threads": 1}, after="import numpy; extra = placement.read_threads()")
    assert {"1"} == set(found["threads"].values())
    assert found["extra"] == 1


@pytest.mark.wheel
def test_applying_imports_no_framework() -> None:
    assert place({"cpus": [FIRST], "numa_node": real_node(), "threads": 2})["modules"] == []


def test_threads_are_unknown_with_nothing_loaded() -> None:
    assert None is place({}, after="extra = placement.read_threads()")["extra"]


def test_auto_on_the_cpu_places_nothing_and_says_why() -> None:
    found = place({"numa_node": "auto"})["said"]
    assert (found["rung"], found["cpus"]) == ("none", MINE)
    assert "a CPU run has no device" in found["reasons"]["numa_node"]


def auto(root: Path, monkeypatch: pytest.MonkeyPatch, numa_node: str) -> EffectivePlacement:
    """Only for outcomes that place nothing: this is the process of the tests."""
    path = root / "sys/bus/pci/devices/0000:65:00.0/numa_node"
    path.parent.mkdir(parents=True)
    path.write_text(numa_node)
    monkeypatch.setattr(nvml, "pci_address", lambda device: "0000:65:00.0")
    return placement.apply(Placement(numa_node="auto"), nth_gpu(0), root)


def test_auto_falls_back_where_the_gpu_has_no_known_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = auto(tmp_path, monkeypatch, "-1\n")
    assert found.rung == "none"
    assert "does not know the node of cuda:0 (0000:65:00.0: -1)" in found.reasons["numa_node"]


def test_auto_falls_back_where_its_node_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, {0: format_cpu_list(MINE), 1: "5000"}, memory="0-1", allowed="0-1")
    found = auto(tmp_path, monkeypatch, "1\n")
    assert (found.rung, found.cpus) == ("none", MINE)
    assert "numa_node=1: it has CPUs 5000" in found.reasons["numa_node"]


def test_auto_binds_to_the_node_of_the_gpu(tmp_path: Path) -> None:
    node = real_node()
    (tmp_path / "sys/bus/pci/devices/0000:65:00.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:65:00.0/numa_node").write_text(f"{node}\n")
    before = """
placement.nvml.pci_address = lambda device: "0000:65:00.0"
apply = placement.apply
placement.apply = lambda asked, device, root: apply(asked, nth_gpu(0), root)
"""
    root = machine(tmp_path, {node: str(FIRST)}, memory=str(node), allowed=str(node))
    found = place({"numa_node": "auto"}, root, before)["said"]
    assert found["cpus"] == [FIRST]
    assert found["rung"] in ("bind", "first touch")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cpus": (0,), "cpu_node": 0}, "cpus=0 with cpu_node=0"),
        ({"numa_node": 0, "cpu_node": 0, "mem_nodes": (1,)}, "numa_node=0 with cpu_node=0 and mem_nodes=1"),
        ({"numa_node": "auto", "cpus": (0,), "mem_nodes": (1,)}, "numa_node=auto with cpus=0 and mem_nodes=1"),
        ({"mem_nodes": (1,), "mem_policy": "local"}, "mem_policy=local with mem_nodes=1"),
        ({"cpu_node": 1, "mem_policy": "bind"}, "mem_policy=bind: it needs nodes"),
    ],
    ids=str,
)
def test_contradictions_are_refused_at_once(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        Placement(**asked)


@pytest.mark.parametrize(
    "asked",
    [{"threads": 0}, {"threads": -1}, {"cpus": ()}, {"cpus": (-1,)}, {"mem_nodes": ()}, {"mem_nodes": (-1,)}],
    ids=str,
)
def test_impossible_requests_are_refused_at_once(asked: dict[str, Any]) -> None:
    with pytest.raises(PlacementError):
        Placement(**asked)


def test_placement_survives_json_and_refuses_unknown_fields() -> None:
    by_cpus = Placement(cpus=(0, 2), numa_node="auto", threads=4)
    by_nodes = Placement(cpu_node=0, mem_nodes=(0, 8), mem_policy="interleave")
    for asked in (by_cpus, by_nodes):
        assert asked == msgspec.json.decode(msgspec.json.encode(asked), type=Placement)
    with pytest.raises(msgspec.ValidationError, match="node"):
        msgspec.json.decode(b'{"node": 1}', type=Placement)
