"""The memory nodes and kinds of CPUs that options name. What cannot be had is an error that names what can.

``option`` is what the user wrote, ``root`` where /proc and /sys are read. All that check raise PlacementError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.errors import PlacementError
from primbench.numa.scan import memory_nodes
from primbench.system.cores import cpu_kinds
from primbench.system.files import attempt, format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from primbench.numa.topology import Node


def existing(asked: int, option: str, root: Path) -> Node:
    """The node of that number, if this machine has it."""
    nodes = nodes_of(option, root)
    node = next((node for node in nodes if node.id == asked), None)
    if node is None:
        raise PlacementError(f"{option}: this machine has {words_of(nodes)} (from /sys/devices/system/node/online)")
    return node


def nodes_of(option: str, root: Path) -> list[Node]:
    """All memory nodes of this machine. Raises PlacementError, naming the option, where it tells none."""
    missing: dict[str, str] = {}
    nodes = attempt(missing, "nodes", lambda: memory_nodes(root))
    if nodes is None:
        raise PlacementError(f"{option}: this machine does not tell its nodes ({missing['nodes']})")
    return nodes


def check_allowed(node: Node, option: str, root: Path) -> None:
    """Whether this process may use memory of the node, as far as that is told."""
    if node.allowed is False:
        allowed = words_of(each for each in nodes_of(option, root) if each.allowed)
        raise PlacementError(
            f"{option}: this process may use memory of {allowed} only (from Mems_allowed_list in /proc/self/status)"
        )


def cpus_near(node: Node, option: str, root: Path) -> list[int]:
    """The node's CPUs, or of memory without CPUs those that reach it best; [] where that is not told."""
    if node.cpus or not node.initiators:
        return node.cpus
    return [cpu for each in nodes_of(option, root) if each.id in node.initiators for cpu in each.cpus]


def reachable(cpus: Collection[int], option: str) -> set[int]:
    """The node's CPUs that this process may run on. Raises PlacementError where there are none."""
    near = os.sched_getaffinity(0) & set(cpus)
    if not near:
        raise PlacementError(
            f"{option}: it has CPUs {format_cpu_list(cpus)}, and this process may run on "
            f"{format_cpu_list(os.sched_getaffinity(0))} only"
        )
    return near


def of_kind(asked: str, cpus: Collection[int] | None, option: str, root: Path) -> set[int]:
    """The CPUs of the kind asked for, of ``cpus`` or of all that this process may use. Raises PlacementError."""
    missing: dict[str, str] = {}
    kinds = attempt(missing, "kinds", lambda: cpu_kinds(root))
    if kinds is None:
        raise PlacementError(f"cpu_kind={asked}: this machine does not tell its kinds of CPUs ({missing['kinds']})")
    if not kinds:
        raise PlacementError(f"cpu_kind={asked}: all CPUs of this machine are of one kind; leave it out")
    of_it = next((kind.cpus for kind in kinds if kind.name == asked), None)
    if of_it is None:
        names = ", ".join(f"{kind.name} (CPUs {format_cpu_list(kind.cpus)})" for kind in kinds)
        raise PlacementError(f"cpu_kind={asked}: this machine has {names}")
    some = os.sched_getaffinity(0) if cpus is None else cpus
    if not set(some) & set(of_it):
        raise PlacementError(
            f"{option}: CPUs of that kind are {format_cpu_list(of_it)}, and the choice here is {format_cpu_list(some)}"
        )
    return set(some) & set(of_it)


def check_memory(asked: int, option: str, root: Path) -> None:
    """Raise PlacementError unless the node exists and has memory that this process may use."""
    node = existing(asked, option, root)
    if not node.has_memory:
        others = words_of(each for each in nodes_of(option, root) if each.is_usable)
        raise PlacementError(f"{option}: node {asked} has no memory; there is memory for this process on {others}")
    check_allowed(node, option, root)


def words_of(nodes: Iterable[Node]) -> str:
    """Nodes by number, such as "nodes 0-1" or "node 2"."""
    ids = format_cpu_list(node.id for node in nodes)
    return f"node{'' if ids.isdecimal() else 's'} {ids}"
