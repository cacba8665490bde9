"""Bind this process to CPUs and to a memory node, and read back what took effect.

The memory policy is set by system call, without libnuma, which slim images lack and whose calls can report
success where the kernel refused (Docker's default profile denies them without CAP_SYS_NICE).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from primbench import nvml
from primbench.errors import PlacementError
from primbench.sysfiles import attempt, format_cpu_list
from primbench.topology import Node, memory_nodes, node_of_pci

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

# Linux: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h,
# arch/powerpc/kernel/syscalls/syscall.tbl.
SYSTEM_CALLS = {
    "x86_64": {"get_mempolicy": 239, "set_mempolicy": 238, "mbind": 237},
    "aarch64": {"get_mempolicy": 236, "set_mempolicy": 237, "mbind": 235},
    "ppc64le": {"get_mempolicy": 260, "set_mempolicy": 261, "mbind": 259},
}

# Linux: include/uapi/linux/mempolicy.h, in the order of its numbers. The upper bits of a policy are flags.
POLICIES = ("default", "preferred", "bind", "interleave", "local", "preferred many", "weighted interleave")
_POLICY_BITS = 0xFF
_BIND = ctypes.c_int(POLICIES.index("bind"))

_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_MASK_BITS = 1024  # no kernel has more nodes: CONFIG_NODES_SHIFT is at most 10
_Mask = ctypes.c_ulong * (_MASK_BITS // _WORD_BITS)
_MAX_NODE = ctypes.c_ulong(_MASK_BITS + 1)  # both calls use one bit less than they are told: mm/mempolicy.c


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to run, as asked.

    numa_node: for threads and memory both; "auto" is the device's own node, and nothing where that is not known.
    cpus or cpu_node, mem_nodes: for threads and for memory alone, and then ``numa_node`` gives the other of the two.
    mem_policy: how memory is taken from ``mem_nodes`` (or ``numa_node``): "bind" unless said otherwise; "local", on
    the node of the CPU that touches it, names no nodes.
    threads: of each library's thread pool; None leaves it to the library.
    """

    cpus: tuple[int, ...] | None = None
    numa_node: int | Literal["auto"] | None = None
    cpu_node: int | None = None
    mem_nodes: tuple[int, ...] | None = None
    mem_policy: Literal["bind", "preferred", "interleave", "local"] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.cpus is not None and (not self.cpus or min(self.cpus) < 0):
            raise PlacementError(f"--cpus {format_cpu_list(self.cpus)!r}: at least one CPU number, such as 0-3")
        if self.threads is not None and self.threads < 1:
            raise PlacementError(f"--threads {self.threads}: a whole number of at least 1")


class EffectivePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where this process runs, as read back from the kernel.

    memory_nodes: those the policy names; [] where it names none, as the default policy does.
    rung: how memory gets where it was asked for: the kernel is told ("bind"), or it follows the CPU that
    touches it first, or no placement was asked for or possible ("none").
    threads: of the largest library pool, read after the libraries are loaded.
    reasons: field -> why it is not known, or not as asked.
    """

    cpus: list[int]
    memory_policy: str | None
    memory_nodes: list[int] | None
    rung: Literal["bind", "first touch", "none"]
    threads: int | None = None
    reasons: dict[str, str] = {}


def apply(placement: Placement, device: str, root: Path = Path("/")) -> EffectivePlacement:
    """Place this process. Call it before NumPy or a framework is imported and before any thread is started.

    device: "cpu" or "cuda:N", for ``numa_node="auto"``. root: where /proc and /sys are read.
    Raises PlacementError where what was asked for by number cannot be had; "auto" falls back with a reason.
    """
    reasons: dict[str, str] = {}
    if placement.threads is not None:
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(placement.threads)))
    if placement.cpus is not None:
        _bind_threads(placement.cpus, "--cpus " + format_cpu_list(placement.cpus))
    node = _node_of(placement, device, root, reasons)
    if node is not None:
        _bind_to_node(node, placement, reasons)
    effective = _read_back(placement, node, reasons)
    if isinstance(placement.numa_node, int) and effective.rung == "none":
        raise PlacementError(
            f"--numa-node {placement.numa_node}: memory cannot be bound there ({_listed(reasons)}): "
            "allow set_mempolicy (docker run --cap-add SYS_NICE), or use CPUs of that node"
        )
    return effective


def read_threads() -> int | None:
    """Threads of the largest pool among the libraries loaded by now; None where none has a pool."""
    import threadpoolctl

    return max((pool["num_threads"] for pool in threadpoolctl.threadpool_info()), default=None)


def _node_of(placement: Placement, device: str, root: Path, reasons: dict[str, str]) -> Node | None:
    """The node to bind to, or None: none was asked for, or "auto" finds none and gives the reason."""
    asked = placement.numa_node
    if asked is None:
        return None
    if asked != "auto":
        return _usable_node(asked, placement, root)
    return attempt(reasons, "numa_node", lambda: _usable_node(_device_node(device, root), placement, root))


def _device_node(device: str, root: Path) -> int:
    if device == "cpu":
        raise PlacementError("--numa-node auto: a CPU run has no device whose node it could take")
    address = nvml.pci_address(device)
    node = node_of_pci(address, root)
    if node is None:
        raise PlacementError(f"--numa-node auto: the kernel does not know the node of {device} ({address}: -1)")
    return node


def _usable_node(asked: int, placement: Placement, root: Path) -> Node:
    """The node, if there is one of that number whose memory and CPUs this process may use."""
    missing: dict[str, str] = {}
    nodes = attempt(missing, "nodes", lambda: memory_nodes(root))
    if nodes is None:
        raise PlacementError(f"--numa-node {asked}: this machine does not tell its nodes ({missing['nodes']})")
    node = next((node for node in nodes if node.id == asked), None)
    if node is None:
        raise PlacementError(
            f"--numa-node {asked}: this machine has {_named(nodes)} (from /sys/devices/system/node/online)"
        )
    if node.has_memory and not node.allowed:
        allowed = _named([node for node in nodes if node.allowed])
        raise PlacementError(
            f"--numa-node {asked}: this process may use memory of {allowed} only "
            "(from Mems_allowed_list in /proc/self/status)"
        )
    near = os.sched_getaffinity(0) & set(node.cpus)
    if placement.cpus is None and node.cpus and not near:
        raise PlacementError(
            f"--numa-node {asked}: it has CPUs {format_cpu_list(node.cpus)}, and this process may run on "
            f"{format_cpu_list(os.sched_getaffinity(0))} only"
        )
    return node


def _bind_to_node(node: Node, placement: Placement, reasons: dict[str, str]) -> None:
    if not node.cpus:
        reasons["cpus"] = f"node {node.id} has no CPUs: only memory is bound to it"
    elif placement.cpus is None:
        _bind_threads(os.sched_getaffinity(0) & set(node.cpus), f"--numa-node {node.id}")
    if not node.has_memory:
        reasons["memory_policy"] = f"node {node.id} has no memory: the kernel takes the nearest that has"
    else:
        attempt(reasons, "set_mempolicy", lambda: _bind_memory(node.id))


def _bind_threads(cpus: Collection[int], asked: str) -> None:
    """Bind every thread of the process; those started later inherit it from the one that starts them."""
    available = os.sched_getaffinity(0)
    if not available.issuperset(cpus):
        raise PlacementError(f"{asked}: this process may run on CPUs {format_cpu_list(available)} only")
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # a thread that has ended meanwhile
            os.sched_setaffinity(int(thread), cpus)
    # The kernel drops what the control group forbids and reports success.
    if os.sched_getaffinity(0) != set(cpus):
        raise PlacementError(f"{asked}: the kernel granted only {format_cpu_list(os.sched_getaffinity(0))}")


def _read_back(placement: Placement, node: Node | None, reasons: dict[str, str]) -> EffectivePlacement:
    cpus = os.sched_getaffinity(0)
    policy, policy_nodes = attempt(reasons, "get_mempolicy", _memory_policy) or (None, None)
    near = cpus.issubset(node.cpus) if node is not None else placement.cpus is not None
    rung: Literal["bind", "first touch", "none"] = "none"
    if node is not None and (policy, policy_nodes) == ("bind", [node.id]):
        rung = "bind"
    elif near and policy in (None, "default", "local"):
        rung = "first touch"
    return EffectivePlacement(
        cpus=sorted(cpus), memory_policy=policy, memory_nodes=policy_nodes, rung=rung, reasons=reasons
    )


def _bind_memory(node: int) -> None:
    """Let this thread, and those it starts, take memory from one node only: set_mempolicy(2), MPOL_BIND."""
    _call("set_mempolicy", _BIND, _mask_of(node), _MAX_NODE)


def bind_pages(address: int, length_bytes: int, node: int) -> None:
    """Let whole pages not yet touched be taken from one node only: mbind(2), MPOL_BIND.

    Raises OSError as the kernel refuses: EPERM under Docker's default profile, EINVAL for a node that this process
    may not use; LookupError where the number of the call is not known.
    """
    start, length, no_flags = ctypes.c_void_p(address), ctypes.c_ulong(length_bytes), ctypes.c_uint()
    _call("mbind", start, length, _BIND, _mask_of(node), _MAX_NODE, no_flags)


def _mask_of(node: int) -> ctypes.Array[ctypes.c_ulong]:
    mask = _Mask()
    mask[node // _WORD_BITS] = 1 << node % _WORD_BITS
    return mask


def _memory_policy() -> tuple[str, list[int]]:
    """This thread's policy and the nodes it names: get_mempolicy(2) without address and flags."""
    policy, mask = ctypes.c_int(), _Mask()
    nowhere, no_flags = ctypes.c_void_p(), ctypes.c_ulong()
    _call("get_mempolicy", ctypes.byref(policy), mask, _MAX_NODE, nowhere, no_flags)
    number = policy.value & _POLICY_BITS
    name = POLICIES[number] if number < len(POLICIES) else f"policy {number}"
    return name, [node for node in range(_MASK_BITS) if mask[node // _WORD_BITS] >> node % _WORD_BITS & 1]


def _call(name: str, *arguments: Any) -> None:
    machine = os.uname().machine
    if machine not in SYSTEM_CALLS:
        raise LookupError(f"the number of {name} on {machine} is not known")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(ctypes.c_long(SYSTEM_CALLS[machine][name]), *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _named(nodes: Iterable[Node]) -> str:
    ids = format_cpu_list(node.id for node in nodes)
    return f"node{'' if ids.isdecimal() else 's'} {ids}"


def _listed(reasons: dict[str, str]) -> str:
    return "; ".join(f"{step}: {reason}" for step, reason in reasons.items())
