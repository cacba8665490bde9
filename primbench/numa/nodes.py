"""The memory nodes and kinds of CPUs that options name. What cannot be had is an error that names what can.

``asked`` is what the user wrote, by the fields of Placement, ``root`` where /proc and /sys are read. All that check
raise PlacementError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.errors import PlacementError
from primbench.numa.scan import memory_nodes
from primbench.system.cores import cpu_kinds
from primbench.system.files import attempt, format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from primbench.numa.topology import Node


def existing(number: int, asked: Mapping[str, object], root: Path) -> Node:
    """The node of that number, if this machine has it."""
    nodes = nodes_of(asked, root)
    node = next((node for node in nodes if node.id == number), None)
    if node is None:
        raise PlacementError(f"this machine has {words_of(nodes)} (from /sys/devices/system/node/online)", asked)
    return node


def nodes_of(asked: Mapping[str, object], root: Path) -> list[Node]:
    """All memory nodes of this machine. Raises PlacementError, naming the option, where it tells none."""
    missing: dict[str, str] = {}
    nodes = attempt(missing, "nodes", lambda: memory_nodes(root))
    if nodes is None:
        raise PlacementError(f"this machine does not tell its nodes ({missing['nodes']})", asked)
    return nodes


def check_allowed(node: Node, asked: Mapping[str, object], root: Path) -> None:
    """Whether this process may use memory of the node, as far as that is told."""
    if node.allowed is False:
        allowed = words_of(each for each in nodes_of(asked, root) if each.allowed)
        raise PlacementError(
            f"this process may use memory of {allowed} only (from Mems_allowed_list in /proc/self/status)",
            asked,
        )


def cpus_near(node: Node, asked: Mapping[str, object], root: Path) -> list[int]:
    """The node's CPUs, or of memory without CPUs those that reach it best; [] where that is not told."""
    if node.cpus or not node.initiators:
        return node.cpus
    return [cpu for each in nodes_of(asked, root) if each.id in node.initiators for cpu in each.cpus]


def reachable(cpus: Collection[int], asked: Mapping[str, object]) -> set[int]:
    """The node's CPUs that this process may run on. Raises PlacementError where there are none."""
    near = os.sched_getaffinity(0) & set(cpus)
    if not near:
        raise PlacementError(
            f"it has CPUs {format_cpu_list(cpus)}, and this process may run on "
            f"{format_cpu_list(os.sched_getaffinity(0))} only",
            asked,
        )
    return near


def of_kind(kind: str, cpus: Collection[int] | None, asked: Mapping[str, object], root: Path) -> set[int]:
    """The CPUs of the kind asked for, of ``cpus`` or of all that this process may use. Raises PlacementError."""
    missing: dict[str, str] = {}
    kinds = attempt(missing, "kinds", lambda: cpu_kinds(root))
    if kinds is None:
        raise PlacementError(f"this machine does not tell its kinds of CPUs ({missing['kinds']})", {"cpu_kind": kind})
    if not kinds:
        raise PlacementError("all CPUs of this machine are of one kind; leave it out", {"cpu_kind": kind})
    of_it = next((each.cpus for each in kinds if each.name == kind), None)
    if of_it is None:
        names = ", ".join(f"{each.name} (CPUs {format_cpu_list(each.cpus)})" for each in kinds)
        raise PlacementError(f"this machine has {names}", {"cpu_kind": kind})
    some = os.sched_getaffinity(0) if cpus is None else cpus
    if not set(some) & set(of_it):
        raise PlacementError(
            f"CPUs of that kind are {format_cpu_list(of_it)}, and the choice here is {format_cpu_list(some)}",
            asked,
        )
    return set(some) & set(of_it)


def check_memory(number: int, asked: Mapping[str, object], root: Path) -> None:
    """Raise PlacementError unless the node exists and has memory that this process may use."""
    node = existing(number, asked, root)
    if not node.has_memory:
        others = words_of(each for each in nodes_of(asked, root) if each.is_usable)
        raise PlacementError(f"node {number} has no memory; there is memory for this process on {others}", asked)
    check_allowed(node, asked, root)


def words_of(nodes: Iterable[Node]) -> str:
    """Nodes by number, such as "nodes 0-1" or "node 2"."""
    ids = format_cpu_list(node.id for node in nodes)
    return f"node{'' if ids.isdecimal() else 's'} {ids}"
