from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.system.cpusets import cpus_allowed, memory_nodes_allowed

STATUS = "proc/self/status"
AFFINITY = "/proc/self/status Cpus_allowed_list"
NEAR = [16, 17, 18, 19]


def relabel(root: Path, label: str, value: str) -> None:
    lines = (root / STATUS).read_text().splitlines()
    (root / STATUS).write_text("\n".join(f"{label}:\t{value}" if line.startswith(label) else line for line in lines))


def test_this_process_may_run_where_the_kernel_says() -> None:
    cpus, source = cpus_allowed(Path("/"))
    assert sorted(os.sched_getaffinity(0)) == cpus
    assert source == AFFINITY or source.startswith("cgroup v")
    assert memory_nodes_allowed(Path("/"))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("container-cpuset-v1", "cgroup v1 cpuset.effective_cpus"),
        ("container-cpuset-v2", "cgroup v2 cpuset.cpus.effective"),
    ],
)
def test_cpuset_of_a_container_is_named(name: str, source: str, tree: Callable[[str], Path]) -> None:
    assert (NEAR, source) == cpus_allowed(tree(name))
    assert [1] == memory_nodes_allowed(tree(name))


def test_affinity_narrower_than_the_cpuset_decides(tree: Callable[[str], Path]) -> None:
    root = tree("container-cpuset-hybrid")
    assert ([16, 17], AFFINITY) == cpus_allowed(root)
    relabel(root, "Cpus_allowed_list", "16-19")
    assert (NEAR, "cgroup v1 cpuset.cpus") == cpus_allowed(root)


def test_mask_that_names_cpus_offline_allows_those_online(tree: Callable[[str], Path]) -> None:
    assert (list(range(8, 14)), "cgroup v2 cpuset.cpus.effective") == cpus_allowed(tree("offline"))


@pytest.mark.parametrize("name", ["container-cpuset-v1", "container-cpuset-v2"])
def test_control_group_answers_where_the_kernel_does_not(name: str, tree: Callable[[str], Path]) -> None:
    root = tree(name)
    (root / STATUS).write_text("Name:\tpython\n")
    assert NEAR == cpus_allowed(root)[0]
    assert [1] == memory_nodes_allowed(root)


def test_affinity_answers_where_no_control_group_is_mounted(tree: Callable[[str], Path]) -> None:
    root = tree("container-cpuset-v2")
    (root / "proc/self/mountinfo").write_text("21 1 0:19 / /proc rw - proc proc rw\n")
    assert (NEAR, AFFINITY) == cpus_allowed(root)


def test_neither_answering_names_both(tree: Callable[[str], Path]) -> None:
    root = tree("container-cpuset-v2")
    relabel(root, "Cpus_allowed_list", "")
    (root / "proc/self/cgroup").unlink()
    with pytest.raises(ValueError, match=r"Cpus_allowed_list is empty; .*cgroup: ENOENT"):
        cpus_allowed(root)


def test_asked_for_in_v2_is_not_taken_for_granted(tree: Callable[[str], Path]) -> None:
    root = tree("container-cpuset-v2")
    (root / "sys/fs/cgroup/cpuset.cpus").write_text("0-63\n")
    assert NEAR == cpus_allowed(root)[0]
