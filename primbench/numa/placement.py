"""Bind this process to CPUs and to memory nodes, and read back what took effect.

Threads and memory are two axes. Where the kernel may not be told of memory (Docker's default profile denies it), pages
still follow the CPU that touches them first, which will do where the threads are on the nodes asked for.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from primbench.errors import PlacementError
from primbench.gpu.nvidia import nvml
from primbench.numa import mempolicy
from primbench.numa.nodes import (
    check_allowed,
    check_memory,
    cpus_near,
    existing,
    nodes_of,
    of_kind,
    reachable,
    words_of,
)
from primbench.numa.scan import memory_nodes, node_of_pci
from primbench.quantities import Whole
from primbench.spec.placement import THREAD_VARIABLES, Placement
from primbench.system.files import attempt, format_cpu_list
from primbench.system.refused_calls import refused_calls_named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from primbench.devices import Device
    from primbench.numa.topology import Node


class EffectivePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where this process runs, as read back from the kernel."""

    cpus: list[Whole]
    memory_policy: str | None
    memory_nodes: list[Whole] | None
    """Nodes that the policy names; [] where it names none, as the default policy does."""
    rung: Literal["bind", "first touch", "none"]
    """How memory gets where it was asked for: the kernel is told ("bind", whatever the policy is called), or it follows
    the CPU that touches it first, or no placement was asked for or possible ("none").
    """
    page_nodes: list[Whole] = []
    """Nodes where pages are to be, by the policy or by first touch; [] is anywhere."""
    threads: Whole | None = None
    """Threads of the largest library pool, read after the libraries are loaded."""
    reasons: dict[str, str] = {}
    """Field -> why it is not known, or not as asked."""

    @property
    def lacks(self) -> list[str]:
        """What was asked of the place and not had, in words: the process went on with less."""
        found = [self.reasons[field] for field in ("numa_node", "cpus", "memory_policy") if field in self.reasons]
        if "set_mempolicy" in self.reasons:
            found.append(f"memory is where it was first touched: set_mempolicy: {self.reasons['set_mempolicy']}")
        return found


def apply(placement: Placement, device: Device, root: Path = Path("/")) -> EffectivePlacement:
    """Place this process. Call it before NumPy or a framework is imported and before any thread is started.

    device: for ``numa_node="auto"``. root: where /proc and /sys are read.
    Raises PlacementError where what was asked for by number cannot be had; "auto" falls back with a reason.
    """
    check_cpus(placement)
    reasons: dict[str, str] = {}
    if placement.threads is not None:
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(placement.threads)))
    node = _node_of(placement, device, root, reasons)
    cpus, asked = _cpus_of(placement, node, root, reasons)
    policy, nodes = _policy_of(placement, node, root, reasons)
    if cpus is not None:
        with refused_calls_named(partial(PlacementError, asked=asked)):
            _bind_threads(cpus, asked)
    if policy is not None:
        attempt(reasons, "set_mempolicy", lambda: mempolicy.set_policy(policy, nodes))
    effective = _read_back(policy, nodes, root, reasons, bound=cpus is not None)
    if effective.rung == "none" and (by_number := _memory_by_number(placement)):
        raise PlacementError(
            f"memory cannot be bound there ({_listed(reasons) or effective.memory_policy}), and first touch by CPUs "
            f"{format_cpu_list(effective.cpus)} does not do: allow set_mempolicy or use CPUs of that node",
            by_number,
        )
    return effective


def share_cpus(cpus: Collection[int], processes: int) -> None:
    """Ask for a process's share of the CPUs as threads, where nobody has asked for any; as early as apply()."""
    if not any(name in os.environ for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(max(1, len(cpus) // processes))))


def read_threads() -> int | None:
    """Threads of the largest pool among the libraries loaded by now; None where none has a pool."""
    import threadpoolctl

    return max((pool["num_threads"] for pool in threadpoolctl.threadpool_info()), default=None)


def _node_of(placement: Placement, device: Device, root: Path, reasons: dict[str, str]) -> Node | None:
    """The node of ``numa_node``, or None: none was asked for, or "auto" finds none and gives the reason."""
    asked = placement.numa_node
    if asked is None:
        return None
    if asked != "auto":
        return _numa_node(asked, placement, root)
    return attempt(reasons, "numa_node", lambda: _numa_node(_device_node(device, root), placement, root))


def _device_node(device: Device, root: Path) -> int:
    if not device.is_gpu:
        raise PlacementError("a CPU run has no device whose node it could take", {"numa_node": "auto"})
    address = nvml.pci_address(device)
    node = node_of_pci(address, root)
    if node is None:
        raise PlacementError(f"the kernel does not know the node of {device} ({address}: -1)", {"numa_node": "auto"})
    return node


def _numa_node(asked: int, placement: Placement, root: Path) -> Node:
    """The node, if what it is to give, memory or CPUs or both, is in this process's reach."""
    by = {"numa_node": asked}
    node = existing(asked, by, root)
    if placement.mem_nodes is None and node.has_memory:
        check_allowed(node, by, root)
    if placement.cpus is None and placement.cpu_node is None and (near := cpus_near(node, by, root)):
        reachable(near, by)
    return node


def _cpus_of(
    placement: Placement, node: Node | None, root: Path, reasons: dict[str, str]
) -> tuple[Collection[int] | None, Mapping[str, object]]:
    """Where threads are to run, None for anywhere, and the fields that say so."""
    cpus, by = _cpus_of_node(placement, node, root, reasons)
    if placement.cpu_kind is None:
        return cpus, by
    by = {**by, "cpu_kind": placement.cpu_kind}
    return of_kind(placement.cpu_kind, cpus, by, root), by


def _cpus_of_node(
    placement: Placement, node: Node | None, root: Path, reasons: dict[str, str]
) -> tuple[Collection[int] | None, Mapping[str, object]]:
    if placement.cpus is not None:
        return placement.cpus, {"cpus": format_cpu_list(placement.cpus)}
    by = {"cpu_node": placement.cpu_node}
    if placement.cpu_node is not None:
        asked = existing(placement.cpu_node, by, root)
        if not asked.cpus:
            raise _without_cpus(by, root)
        return reachable(asked.cpus, by), by
    if node is None:
        return None, {}
    by = {"numa_node": node.id}
    if near := cpus_near(node, by, root):
        return reachable(near, by), by
    if placement.mem_nodes is not None and placement.numa_node != "auto":  # only its CPUs can have been meant
        raise _without_cpus(by, root)
    reasons["cpus"] = f"node {node.id} has no CPUs, and the kernel tells none near it: only memory is bound to it"
    return None, {}


def _without_cpus(by: Mapping[str, object], root: Path) -> PlacementError:
    others = words_of(each for each in nodes_of(by, root) if each.cpus)
    return PlacementError(f"it has no CPUs to run on: use {others}, or ask for its memory alone", by)


def _policy_of(
    placement: Placement, node: Node | None, root: Path, reasons: dict[str, str]
) -> tuple[str | None, list[int]]:
    """The memory policy to set, None to leave it as it is, and the nodes it names."""
    if placement.mem_policy == "local":
        return "local", []
    policy = placement.mem_policy or "bind"
    if placement.mem_nodes is not None:
        for asked in placement.mem_nodes:
            check_memory(asked, {"mem_nodes": format_cpu_list(placement.mem_nodes)}, root)
        return policy, sorted(set(placement.mem_nodes))
    if node is None:
        return None, []
    if not node.has_memory:
        reasons["memory_policy"] = f"node {node.id} has no memory: the kernel takes the nearest that has"
        return None, []
    return policy, [node.id]


def check_cpus(placement: Placement) -> None:
    """Raises PlacementError where CPUs asked for by number are not this process's to use."""
    available = os.sched_getaffinity(0)
    if placement.cpus is not None and not available.issuperset(placement.cpus):
        asked = {"cpus": format_cpu_list(placement.cpus)}
        raise PlacementError(f"this process may run on CPUs {format_cpu_list(available)} only", asked)


def _bind_threads(cpus: Collection[int], asked: Mapping[str, object]) -> None:
    """Bind every thread of the process; those started later inherit it from the one that starts them."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # a thread that has ended meanwhile
            os.sched_setaffinity(int(thread), cpus)
    # The kernel drops what the control group forbids and reports success.
    if os.sched_getaffinity(0) != set(cpus):
        raise PlacementError(f"the kernel granted only {format_cpu_list(os.sched_getaffinity(0))}", asked)


def _read_back(
    asked_policy: str | None, asked_nodes: list[int], root: Path, reasons: dict[str, str], *, bound: bool
) -> EffectivePlacement:
    """bound: whether threads were. What was asked of memory is compared with what the kernel says it does."""
    cpus = os.sched_getaffinity(0)
    policy, named = attempt(reasons, "get_mempolicy", mempolicy.current_policy) or (None, None)
    near = [node for node in attempt({}, "nodes", lambda: memory_nodes(root)) or [] if cpus & set(node.cpus)]
    asked = _Asked(bound, asked_policy, asked_nodes)
    rung: Literal["bind", "first touch", "none"] = "none"
    page_nodes = named or []
    if asked_nodes and policy in (asked_policy, f"{asked_policy} many") and named == asked_nodes:
        rung = "bind"
    elif asked.is_met_by_touch(policy, near):
        rung, page_nodes = "first touch", asked.touched(near)
    return EffectivePlacement(
        cpus=sorted(cpus),
        memory_policy=policy,
        memory_nodes=named,
        rung=rung,
        page_nodes=page_nodes,
        reasons=reasons,
    )


class _Asked(NamedTuple):
    """What the kernel was asked for."""

    bound: bool
    """Whether threads were bound."""
    policy: str | None
    """Policy of memory."""
    nodes: list[int]
    """Nodes of memory."""

    def is_met_by_touch(self, policy: str | None, near: list[Node]) -> bool:
        """Whether pages that follow the CPU are where they were asked for; among nodes they take turns by chance."""
        follows = policy in (None, "default", "local") and (self.policy != "interleave" or len(self.nodes) == 1)
        return follows and _touches(near, self.nodes) and (self.bound or self.policy is not None)

    def touched(self, near: list[Node]) -> list[int]:
        """[] where the kernel takes the nearest that may be used and has some, which it does not name."""
        known = (self.bound or self.nodes) and all(node.is_usable for node in near)
        return [node.id for node in near] if known else []


def _touches(near: list[Node], asked_nodes: list[int]) -> bool:
    """Whether pages taken on the nodes of the CPUs are where they were asked for."""
    return not asked_nodes or (bool(near) and {node.id for node in near} <= set(asked_nodes))


def _memory_by_number(placement: Placement) -> dict[str, object]:
    """The fields that ask for memory with no leave to fall back."""
    found: dict[str, object] = {}
    if isinstance(placement.numa_node, int) and placement.mem_nodes is None:
        found["numa_node"] = placement.numa_node
    if placement.mem_nodes is not None:
        found["mem_nodes"] = format_cpu_list(placement.mem_nodes)
    if placement.mem_policy is not None and placement.numa_node != "auto":
        found["mem_policy"] = placement.mem_policy
    return found


def _listed(reasons: dict[str, str]) -> str:
    return "; ".join(f"{step}: {reason}" for step, reason in reasons.items())
