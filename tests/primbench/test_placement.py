"""Placing changes the process for good, so that each real placement happens in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from primbench import nvml, placement
from primbench.errors import PlacementError
from primbench.placement import EffectivePlacement, Placement
from primbench.sysfiles import format_cpu_list
from primbench.topology import memory_nodes

if TYPE_CHECKING:
    from pathlib import Path

NODE = "sys/devices/system/node"
MINE = sorted(os.sched_getaffinity(0))
FIRST = MINE[0]

# Applies a placement and tells what this process, the kernel's own files and the environment say of it.
CHILD = """
import json, os, re, sys, threading
from pathlib import Path
import msgspec
from primbench import placement
from primbench.errors import PlacementError
asked = msgspec.convert(json.loads(sys.argv[1]), placement.Placement)
{before}
try:
    said = msgspec.to_builtins(placement.apply(asked, "cpu", Path(sys.argv[2])))
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

# A seccomp filter as Docker's default profile has it: the call fails with EPERM (1). seccomp(2), filter mode:
# load the number, skip one if it is not the refused one, return an errno, else allow.
REFUSE = """
import ctypes
def refuse(number):
    class Step(ctypes.Structure):
        _fields_ = [
            ("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)
        ]
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Step))]
    load, compare, give = 0x20, 0x15, 0x06
    steps = (Step * 4)(
        (load, 0, 0, 0), (compare, 0, 1, number), (give, 0, 0, 0x00050001), (give, 0, 0, 0x7FFF0000)
    )
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS"
    assert libc.prctl(22, 2, ctypes.byref(Program(4, steps)), 0, 0) == 0, "PR_SET_SECCOMP"
calls = placement.SYSTEM_CALLS[os.uname().machine]
"""


def place(asked: dict[str, Any], root: str = "/", before: str = "", after: str = "") -> dict[str, Any]:
    code = CHILD.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(asked), root], capture_output=True, text=True, check=False
    )
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


def test_absent_node_is_refused_with_those_there_are(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    expected = "--numa-node 5: this machine has nodes 0-1 (from /sys/devices/system/node/online)"
    assert expected == place({"numa_node": 5}, root)["said"]


def test_node_outside_the_cpuset_is_refused(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 8: ""}, memory="0,8", allowed="0")
    assert "may use memory of node 0 only" in place({"numa_node": 8}, root)["said"]


def test_node_whose_cpus_are_out_of_reach_is_refused(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: "5000-5001"}, memory="0", allowed="0")
    assert f"may run on {format_cpu_list(MINE)} only" in place({"numa_node": 0}, root)["said"]


def test_machine_that_hides_its_nodes_is_said(tmp_path: Path) -> None:
    expected = f"--numa-node 0: this machine does not tell its nodes ({tmp_path}/{NODE}/has_memory: ENOENT)"
    assert expected == place({"numa_node": 0}, str(tmp_path))["said"]


def test_unavailable_cpus_are_refused_with_those_allowed() -> None:
    found = place({"cpus": [FIRST, 5000]})
    assert f"--cpus {FIRST},5000: this process may run on CPUs {format_cpu_list(MINE)} only" == found["said"]
    assert format_cpu_list(MINE) == found["cpus_allowed"]


def test_node_without_cpus_binds_memory_only(tmp_path: Path) -> None:
    node = real_node()
    found = place({"numa_node": node}, machine(tmp_path, {node: ""}, memory=str(node), allowed=str(node)))
    if not found["bound_by_kernel"]:
        pytest.skip("set_mempolicy is denied here: memory cannot be bound without CPUs of the node")
    assert found["said"]["cpus"] == MINE
    assert found["said"]["rung"] == "bind"
    assert f"node {node} has no CPUs: only memory is bound to it" == found["said"]["reasons"]["cpus"]


def test_node_without_memory_binds_cpus_only(tmp_path: Path) -> None:
    root = machine(tmp_path, {3: str(FIRST)}, memory="", allowed="")
    found = place({"numa_node": 3}, root)
    assert found["said"]["cpus"] == [FIRST]
    assert found["said"]["rung"] == "first touch"
    assert "node 3 has no memory" in found["said"]["reasons"]["memory_policy"]


def test_denied_mempolicy_leaves_first_touch_and_names_the_error() -> None:
    found = place({"numa_node": real_node()}, before=REFUSE + "refuse(calls['set_mempolicy'])")
    assert found["said"]["rung"] == "first touch"
    assert found["said"]["reasons"]["set_mempolicy"].endswith("EPERM")
    assert not found["bound_by_kernel"]


def test_policy_that_cannot_be_read_back_is_unknown() -> None:
    found = place({"numa_node": real_node()}, before=REFUSE + "refuse(calls['get_mempolicy'])")
    assert None is found["said"]["memory_policy"]
    assert found["said"]["rung"] == "first touch"
    assert found["said"]["reasons"]["get_mempolicy"].endswith("EPERM")


def test_denied_mempolicy_with_cpus_elsewhere_cannot_be_met(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: format_cpu_list(MINE), 1: ""}, memory="0-1", allowed="0-1")
    before = REFUSE + "refuse(calls['set_mempolicy'])"
    said = place({"cpus": [FIRST], "numa_node": 1}, root, before)["said"]
    assert "--numa-node 1: memory cannot be bound there" in said
    assert "EPERM" in said


def test_inherited_policy_is_not_taken_for_first_touch() -> None:
    """As under ``numactl --interleave``: pages then do not follow the CPU that touches them."""
    before = f"""
mask = placement._Mask(); mask[0] = 1 << {real_node()}
interleave = placement.ctypes.c_int(placement.POLICIES.index("interleave"))
try: placement._call("set_mempolicy", interleave, mask, placement._MAX_NODE)
except OSError: pass
"""
    found = place({"cpus": [FIRST]}, before=before)["said"]
    if found["memory_policy"] != "interleave":
        pytest.skip("set_mempolicy is denied here: no policy can be inherited")
    assert found["rung"] == "none"


def test_node_that_the_kernel_refuses_falls_to_first_touch(tmp_path: Path) -> None:
    root = machine(tmp_path, {1000: str(FIRST)}, memory="1000", allowed="1000")
    found = place({"numa_node": 1000}, root)
    assert (found["said"]["rung"], found["said"]["cpus"]) == ("first touch", [FIRST])
    assert found["said"]["reasons"]["set_mempolicy"].endswith(("EINVAL", "EPERM", "ENOSYS"))


def test_unknown_processor_binds_cpus_only() -> None:
    found = place({"numa_node": real_node()}, before="placement.SYSTEM_CALLS.clear()")
    assert found["said"]["rung"] == "first touch"
    assert "is not known" in found["said"]["reasons"]["set_mempolicy"]


def test_thread_count_reaches_every_library_before_it_loads() -> None:
    found = place({"threads": 1}, after="import numpy; extra = placement.read_threads()")
    assert {"1"} == set(found["threads"].values())
    assert found["extra"] == 1


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
    return placement.apply(Placement(numa_node="auto"), "cuda:0", root)


def test_auto_falls_back_where_the_gpu_has_no_known_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = auto(tmp_path, monkeypatch, "-1\n")
    assert found.rung == "none"
    assert "does not know the node of cuda:0 (0000:65:00.0: -1)" in found.reasons["numa_node"]


def test_auto_falls_back_where_its_node_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, {0: format_cpu_list(MINE), 1: "5000"}, memory="0-1", allowed="0-1")
    found = auto(tmp_path, monkeypatch, "1\n")
    assert (found.rung, found.cpus) == ("none", MINE)
    assert "--numa-node 1: it has CPUs 5000" in found.reasons["numa_node"]


def test_auto_binds_to_the_node_of_the_gpu(tmp_path: Path) -> None:
    node = real_node()
    (tmp_path / "sys/bus/pci/devices/0000:65:00.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:65:00.0/numa_node").write_text(f"{node}\n")
    before = """
placement.nvml.pci_address = lambda device: "0000:65:00.0"
apply = placement.apply
placement.apply = lambda asked, device, root: apply(asked, "cuda:0", root)
"""
    root = machine(tmp_path, {node: str(FIRST)}, memory=str(node), allowed=str(node))
    found = place({"numa_node": "auto"}, root, before)["said"]
    assert found["cpus"] == [FIRST]
    assert found["rung"] in ("bind", "first touch")


@pytest.mark.parametrize("asked", [{"threads": 0}, {"threads": -1}, {"cpus": ()}, {"cpus": (-1,)}])
def test_impossible_requests_are_refused_at_once(asked: dict[str, Any]) -> None:
    with pytest.raises(PlacementError):
        Placement(**asked)


def test_placement_survives_json_and_refuses_unknown_fields() -> None:
    asked = Placement(cpus=(0, 2), numa_node="auto", threads=4)
    assert asked == msgspec.json.decode(msgspec.json.encode(asked), type=Placement)
    with pytest.raises(msgspec.ValidationError, match="node"):
        msgspec.json.decode(b'{"node": 1}', type=Placement)
