"""The commands on a machine that has NUMA nodes of CPUs 0-1 and 2-3, and a third of memory alone, near the second.

Only places, errors and shapes: no times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Run = Callable[..., CompletedProcess[str]]

NUMPY = ("--backend", "numpy", "--bytes", "1MiB")
QUICK = (*NUMPY, "--min-time", "10ms", "--max-time", "20ms")
NODE_1_ONLY = {"cpuset.cpus": "2-3", "cpuset.mems": "1"}
HALF_A_CPU = {"cpu.max": "50000 100000"}

# Binds itself, touches 64 pages, and asks the kernel for their nodes by both ways there are, without primbench.
BOUND_PAGES = """
import ctypes, json, mmap, os, re, sys
from pathlib import Path
from primbench.numa.placement import Placement, apply

apply(Placement(numa_node=int(sys.argv[1])), "cpu")
COUNT = 64
block = mmap.mmap(-1, COUNT * mmap.PAGESIZE)
for page in range(COUNT):
    block[page * mmap.PAGESIZE] = 1
start = ctypes.addressof(ctypes.c_char.from_buffer(block))
pages = (ctypes.c_void_p * COUNT)(*(start + page * mmap.PAGESIZE for page in range(COUNT)))
nodes = (ctypes.c_int * COUNT)()
MOVE_PAGES = 279
assert 0 == ctypes.CDLL(None).syscall(MOVE_PAGES, 0, ctypes.c_ulong(COUNT), pages, None, nodes, 0)
(line,) = [line for line in Path("/proc/self/numa_maps").read_text().splitlines() if int(line.split()[0], 16) == start]
print(json.dumps({
    "move_pages": sorted(set(nodes)),
    "numa_maps": {int(node): int(count) for node, count in re.findall(r"N(\\d+)=(\\d+)", line)},
    "cpus": sorted(os.sched_getaffinity(0)),
}))
"""

# Marks half of 64 touched pages as automatic NUMA balancing does it, which begins after a second of CPU time.
MARKED_PAGES = """
import ctypes, json, mmap
from primbench.numa.pages import HostExtent, look

HALF = 32 * mmap.PAGESIZE
block = mmap.mmap(-1, 2 * HALF)
block[:] = bytes([1]) * len(block)
start = ctypes.addressof(ctypes.c_char.from_buffer(block))
PROT_NONE = 0
assert 0 == ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(HALF), PROT_NONE)
looks = [look([extent], []) for extent in
         (HostExtent(start, HALF), HostExtent(start + HALF, HALF), HostExtent(start, 2 * HALF))]
print(json.dumps([[each.read_by, each.by_node] for each in looks]))
"""

# As a worker does it, which is started anew and looks around for long: placed before NumPy is there, then the copy.
COPIED = """
import json, msgspec, sys
from primbench.numa import placement
from primbench.spec.placement import Placement

placed = placement.apply(msgspec.json.decode(sys.argv[1], type=Placement), "cpu")

from primbench.backends import open_backend
from primbench.kernels.memcpy import Memcpy
from primbench.spec.method import Method
from primbench.timing.case import measure_on

backend, once = open_backend("numpy", "cpu"), Method(dry_run=True)
measured = measure_on(backend, Memcpy(2**20), once, page_nodes=placed.page_nodes)
print(msgspec.json.encode({"placement": placed, "pages": measured.pages, "missing": measured.missing}).decode())
"""

# Holds a CPU for a second, then goes on as the doctor.
DOCTOR_AFTER_A_BUSY_SECOND = """
import time
from primbench.__main__ import main
while time.process_time() < 1:
    pass
main()
"""


@pytest.fixture(scope="session")
def primbench(on_two_nodes: Run) -> Run:
    """``primbench(*arguments, cgroup=...)``: the installed command, as it ended in the machine."""

    def run(*arguments: Any, cgroup: Mapping[str, str] | None = None) -> CompletedProcess[str]:
        return on_two_nodes(sys.executable, "-P", "-m", "primbench", *arguments, cgroup=cgroup)

    return run


@pytest.fixture(scope="session")
def copied(on_two_nodes: Run) -> Callable[..., tuple[Any, Any]]:
    """``copied(cgroup={}, **placement)``: what took effect of it, and where the pages of a copy were."""

    def of(cgroup: Mapping[str, str] | None = None, **placement: Any) -> tuple[Any, Any]:
        said = json_of(on_two_nodes(sys.executable, "-P", "-c", COPIED, json.dumps(placement), cgroup=cgroup))
        assert said["pages"] is not None, said["missing"]
        return said["placement"], said["pages"]

    return of


def json_of(ended: CompletedProcess[str]) -> Any:
    assert 0 == ended.returncode, ended
    return json.loads(ended.stdout)


def test_a_command_that_does_not_end_is_ended_with_what_it_started(on_two_nodes: Run) -> None:
    with pytest.raises(AssertionError, match="not ended in 1 s"):
        on_two_nodes("sh", "-c", "sleep 77 & wait", timeout_s=1)
    assert "sleep\x0077" not in on_two_nodes("sh", "-c", "cat /proc/[0-9]*/cmdline").stdout


def test_pages_that_numa_balancing_has_marked_are_seen_too(on_two_nodes: Run) -> None:
    said = json_of(on_two_nodes(sys.executable, "-P", "-c", MARKED_PAGES, cgroup=NODE_1_ONLY))
    assert [["numa_maps", {"1": 32}], ["move_pages", {"1": 32}], ["numa_maps", {"1": 64}]] == said


@pytest.mark.parametrize(("node", "cpus"), [(0, [0, 1]), (1, [2, 3])])
def test_binding_puts_pages_where_the_kernel_says_they_are(on_two_nodes: Run, node: int, cpus: list[int]) -> None:
    said = json_of(on_two_nodes(sys.executable, "-P", "-c", BOUND_PAGES, node))
    assert {"move_pages": [node], "numa_maps": {str(node): 64}, "cpus": cpus} == said


def test_a_node_holds_threads_and_memory(primbench: Run) -> None:
    said = json_of(primbench("memcpy", *QUICK, "--numa-node", 1, "--json", "-"))
    (worker,), (record,) = said["workers"], said["records"]
    assert "ok" == record["status"], record["reason"]
    placement, pages = worker["placement"], record["measurement"]["pages"]
    assert ([2, 3], "bind", "bind", [1]) == tuple(
        placement[field] for field in ("cpus", "rung", "memory_policy", "memory_nodes")
    )
    assert (["1"], [1], False) == (list(pages["by_node"]), pages["asked"], pages["misplaced"])


def test_threads_and_memory_are_placed_apart(copied: Callable[..., tuple[Any, Any]]) -> None:
    placement, pages = copied(cpu_node=0, mem_nodes=[1])
    assert ([0, 1], "bind", [1]) == tuple(placement[field] for field in ("cpus", "memory_policy", "memory_nodes"))
    assert (["1"], [1], False) == (list(pages["by_node"]), pages["asked"], pages["misplaced"])


def test_a_node_of_memory_alone_has_the_threads_that_reach_it_best(copied: Callable[..., tuple[Any, Any]]) -> None:
    placement, pages = copied(numa_node=2)
    assert ([2, 3], "bind", [2], {}) == tuple(placement[field] for field in ("cpus", "rung", "memory_nodes", "reasons"))
    assert (["2"], [2], False) == (list(pages["by_node"]), pages["asked"], pages["misplaced"])


def test_threads_of_a_node_whose_memory_is_denied_have_pages_asked_for_nowhere(
    copied: Callable[..., tuple[Any, Any]],
) -> None:
    placement, pages = copied({"cpuset.cpus": "0-1", "cpuset.mems": "1"}, cpu_node=0)
    assert ([0, 1], []) == (placement["cpus"], placement["page_nodes"])
    assert (["1"], [], False) == (list(pages["by_node"]), pages["asked"], pages["misplaced"])


def test_a_node_outside_the_control_group_is_refused_naming_what_is_allowed(on_two_nodes: Run) -> None:
    ended = on_two_nodes(sys.executable, "-P", "-c", COPIED, '{"numa_node": 0}', cgroup=NODE_1_ONLY)
    assert 1 == ended.returncode
    assert "PlacementError: numa_node=0: this process may use memory of node 1 only " in ended.stderr


def test_the_node_of_the_control_group_is_granted(copied: Callable[..., tuple[Any, Any]]) -> None:
    placement, pages = copied(NODE_1_ONLY, numa_node=1)
    assert ([2, 3], [1]) == (placement["cpus"], placement["memory_nodes"])
    assert ["1"] == list(pages["by_node"])


def test_every_pair_of_nodes_is_measured_on_the_nodes_it_names(primbench: Run, on_two_nodes: Run) -> None:
    said = json_of(primbench("numa", *NUMPY, "--rounds", 1, "--quiet", "--json", "-", "-o", "/run/numa.jsonl"))
    pairs = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    (matrix,) = said["matrices"]
    assert ("cpu", "h2h") == (matrix["device"], matrix["kind"])
    assert pairs == sorted((cell["cpu_node"], cell["memory_node"]) for cell in matrix["cells"])
    assert all(["0"] == list(cell["times_s"]) for cell in matrix["cells"])
    assert "numba" in said["missing"]["chase"]
    assert ["CPU node 0", "CPU node 1"] == [nearness["subject"] for nearness in said["nearness"]]

    lines = [json.loads(line) for line in on_two_nodes("cat", "/run/numa.jsonl").stdout.splitlines()]
    cpus = {line["worker"]: line["placement"]["cpus"] for line in lines if line["kind"] == "worker"}
    records = [line for line in lines if line["kind"] == "record"]
    node_of = {(0, 1): 0, (2, 3): 1}
    seen = [(node_of[tuple(cpus[record["worker"]])], *record["measurement"]["pages"]["by_node"]) for record in records]
    assert [(cpu_node, str(memory_node)) for cpu_node, memory_node in pairs] == sorted(seen)


def test_the_topology_as_a_table_a_document_and_a_picture(primbench: Run, on_two_nodes: Run) -> None:
    ended = primbench("topo", "--json", "/run/topology.json", "--svg", "/run/topology.svg")
    assert 0 == ended.returncode, ended
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert [["0", "0-1"], ["1", "2-3"], ["2", "none,"]] == [row[:2] for row in rows if row[-1:] == ["yes"]]

    said = json_of(on_two_nodes("cat", "/run/topology.json"))
    fields = ("id", "cpus", "distances", "has_memory", "allowed", "initiators")
    assert [
        [0, [0, 1], {"0": 10, "1": 21, "2": 28}, True, True, []],
        [1, [2, 3], {"0": 21, "1": 10, "2": 17}, True, True, []],
        [2, [], {"0": 28, "1": 17, "2": 10}, True, True, [1]],
    ] == [[node[field] for field in fields] for node in said["nodes"]]
    assert [[[0], [1]], [[2], [3]]] == [package["cores"] for package in said["packages"]]
    assert all(0 < node["memory_bytes"] <= 768 * 2**20 for node in said["nodes"])

    picture = ElementTree.fromstring(on_two_nodes("cat", "/run/topology.svg").stdout)
    texts = {"".join(element.itertext()) for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"node 0", "node 1", "node 2"} <= texts


def test_the_place_is_read_without_an_error(primbench: Run) -> None:
    said = json_of(primbench("env", "--json", "-"))
    assert (4, True) == (said["machine"]["cpus_total"], said["machine"]["numa_balancing"])
    assert ("v2", None, [0, 1, 2]) == tuple(
        said["limits"][field] for field in ("cgroup_version", "cpu_quota", "memory_nodes_allowed")
    )
    assert ["allowed"] * 3 == [said["confinement"][call] for call in ("set_mempolicy", "mbind", "move_pages")]


def test_a_quota_and_what_it_held_back(on_two_nodes: Run) -> None:
    """All in one control group: a busy second, and the doctor, who comes after it."""
    doctor = (sys.executable, "-P", "-c", DOCTOR_AFTER_A_BUSY_SECOND, "doctor", "--json", "-")
    said = json.loads(on_two_nodes(*doctor, cgroup=HALF_A_CPU).stdout)
    limits = said["place"]["environment"]["limits"]
    assert ("v2", 0.5, 0.1) == tuple(limits[field] for field in ("cgroup_version", "cpu_quota", "cpu_period_s"))
    assert limits["throttled_periods"] > 0
    assert limits["throttled_s"] > 0
    (finding,) = [finding for finding in said["findings"] if finding["check"] == "cpu-quota"]
    assert finding["severity"] in ("warning", "problem")
    assert "0.5 of the 4 CPUs" in finding["summary"]
