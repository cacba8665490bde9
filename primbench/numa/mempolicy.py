"""Linux's memory policy by system call: from which nodes this thread takes pages, and where pages are.

No libnuma: slim images lack it, and its calls can report success where the kernel refused. Every function raises
OSError as the kernel or a filter refuses (EPERM under Docker's default profile, EINVAL for a node outside the cpuset,
ENOSYS for a kernel or a sandbox without the call), and LookupError where the number of the call is not known.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# Linux: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h,
# arch/powerpc/kernel/syscalls/syscall.tbl.
SYSTEM_CALLS = {
    "x86_64": {"get_mempolicy": 239, "set_mempolicy": 238, "mbind": 237, "move_pages": 279},
    "aarch64": {"get_mempolicy": 236, "set_mempolicy": 237, "mbind": 235, "move_pages": 239},
    "ppc64le": {"get_mempolicy": 260, "set_mempolicy": 261, "mbind": 259, "move_pages": 301},
}

# Linux: include/uapi/linux/mempolicy.h, in the order of its numbers. The upper bits of a policy are flags.
POLICIES = ("default", "preferred", "bind", "interleave", "local", "preferred many", "weighted interleave")
_POLICY_BITS = 0xFF
_NO_POLICY = 0x7FFF  # no kernel has so many: refused with EINVAL, once the call itself is allowed

MOST_NODES = 1024  # no kernel has more: CONFIG_NODES_SHIFT is at most 10
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_Mask = ctypes.c_ulong * (MOST_NODES // _WORD_BITS)
_MAX_NODE = ctypes.c_ulong(MOST_NODES + 1)  # the calls use one bit less than they are told: mm/mempolicy.c
_NULL = ctypes.c_void_p()

_WAYS_OUT = {
    errno.EPERM: "allow it (docker run --cap-add SYS_NICE)",
    errno.EINVAL: "a node that does not exist, or outside the cpuset",
}


def set_policy(policy: str, nodes: Collection[int] = ()) -> None:
    """How this thread, and those it starts from now on, take pages: set_mempolicy(2).

    policy: one of POLICIES. "preferred" with several nodes is "preferred many", since Linux 5.15: the older one would
    take the first of them alone.
    """
    _call("set_mempolicy", _number_of(policy, nodes), _mask_of(nodes), _MAX_NODE)


def current_policy() -> tuple[str, list[int]]:
    """This thread's policy and the nodes it names, none for "default" and "local": get_mempolicy(2)."""
    policy, mask = ctypes.c_int(), _Mask()
    _call("get_mempolicy", ctypes.byref(policy), mask, _MAX_NODE, _NULL, ctypes.c_ulong())
    number = policy.value & _POLICY_BITS
    name = POLICIES[number] if number < len(POLICIES) else f"policy {number}"
    nodes = [node for node in range(MOST_NODES) if mask[node // _WORD_BITS] >> node % _WORD_BITS & 1]
    # Until Linux 5.13 "local" was kept, and is told, as preferring no node.
    return ("local", []) if name == "preferred" and not nodes else (name, nodes)


def bind_pages(address: int, length_bytes: int, nodes: Collection[int]) -> None:
    """Let whole pages not yet touched be taken from these nodes only: mbind(2), MPOL_BIND. address: of a page."""
    start, length, no_flags = ctypes.c_void_p(address), ctypes.c_ulong(length_bytes), ctypes.c_uint()
    _call("mbind", start, length, _number_of("bind", nodes), _mask_of(nodes), _MAX_NODE, no_flags)


def nodes_of_pages(addresses: Sequence[int]) -> list[int]:
    """The node of the page at each address, below 0 for one never touched: move_pages(2), which only asks here."""
    count = len(addresses)
    pages, found = (ctypes.c_void_p * count)(*addresses), (ctypes.c_int * count)()
    _call("move_pages", ctypes.c_int(), ctypes.c_ulong(count), pages, _NULL, found, ctypes.c_int())
    return list(found)


def probe(call: str) -> None:
    """Make one of the calls in SYSTEM_CALLS so that it changes nothing. Returns where it is allowed."""
    nothing = ctypes.c_ulong()
    if call == "get_mempolicy":
        _call(call, _NULL, _NULL, nothing, _NULL, nothing)
    elif call == "move_pages":
        nodes_of_pages([ctypes.addressof(nothing)])
    else:
        _probe_by_nonsense(call)


def _probe_by_nonsense(call: str) -> None:
    """Ask for a policy that there is not, which the kernel refuses with EINVAL, and a filter by its own number."""
    nothing = ctypes.c_ulong()
    policy = (ctypes.c_int(_NO_POLICY), _NULL, nothing)
    try:
        _call(call, *((_NULL, nothing, *policy, ctypes.c_uint()) if call == "mbind" else policy))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _number_of(policy: str, nodes: Collection[int]) -> ctypes.c_int:
    return ctypes.c_int(POLICIES.index("preferred many" if policy == "preferred" and len(nodes) > 1 else policy))


def _mask_of(nodes: Collection[int]) -> ctypes.Array[ctypes.c_ulong] | ctypes.c_void_p:
    """No mask for no nodes: with one, "default" is refused."""
    if not nodes:
        return _NULL
    if not 0 <= min(nodes) <= max(nodes) < MOST_NODES:
        raise LookupError(f"no kernel has a memory node beyond 0 to {MOST_NODES - 1}")
    mask = _Mask()
    for node in nodes:
        mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return mask


@functools.cache  # each has a class of its own, which only the collector of garbage removes
def _libc() -> ctypes.CDLL:
    found = ctypes.CDLL(None, use_errno=True)
    found.syscall.restype = ctypes.c_long
    return found


def _call(name: str, *arguments: Any) -> None:
    machine = os.uname().machine
    if machine not in SYSTEM_CALLS:
        raise LookupError(f"the number of {name} on {machine} is not known")
    if _libc().syscall(ctypes.c_long(SYSTEM_CALLS[machine][name]), *arguments) < 0:
        code = ctypes.get_errno()
        way_out = f": {_WAYS_OUT[code]}" if code in _WAYS_OUT and name != "move_pages" else ""
        raise OSError(code, f"{os.strerror(code)}{way_out}")
