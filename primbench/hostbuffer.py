"""Host memory for copies: pages of their own, touched, and on the memory node that was asked for.

A library's allocator would hand out pages that were touched before, on whatever node that was.
"""

from __future__ import annotations

import contextlib
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from primbench import hostmemory, placement
from primbench.errors import UnsupportedCase
from primbench.sysfiles import attempt, format_cpu_list
from primbench.topology import memory_nodes
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from primbench.problem import Array

PLACED = 0.99  # of the pages; the kernel may have moved a few


def host_buffer(size_bytes: int, node: int | None = None) -> Array:
    """An int8 array in pages that nobody used before, none of them zero; given back with its last view.

    node: the memory node that all pages are to be on; None leaves it to the policy of this process.
    Raises UnsupportedCase where there is not so much memory, or the pages cannot be had or seen on that node.
    """
    import numpy as np

    free = hostmemory.available_memory_bytes()
    if size_bytes > free:  # pages are taken when touched, and what is taken beyond this ends the process
        raise UnsupportedCase(f"needs {format_bytes(size_bytes)} more, {format_bytes(free)} free on this host")
    pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages; NumPy asks for them in its own arrays, too
        pages.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(pages, np.int8)
    if node is not None:
        _bind(array, node)
    array.fill(1)
    if node is not None:
        _check(array, node)
    return array


def share_on(address: int, node: int, root: Path = Path("/")) -> float:
    """The part of the touched pages around an address that is on a node, from /proc/self/numa_maps.

    Raises OSError where the kernel has no such file, ValueError where nothing at the address was touched.
    """
    line = ""
    for later in (root / "proc/self/numa_maps").read_text().splitlines():
        if int(later.split(" ", 1)[0], 16) > address:
            break
        line = later
    words = [word[1:].partition("=") for word in line.split() if word[0] == "N" and "=" in word]
    pages = {int(number): int(count) for number, _, count in words}
    if not pages:
        raise ValueError(f"numa_maps names no page at {address:#x}")
    return pages.get(node, 0) / sum(pages.values())


def _bind(array: Array, node: int) -> None:
    reasons: dict[str, str] = {}
    attempt(reasons, "mbind", lambda: placement.bind_pages(array.ctypes.data, array.nbytes, node))
    if not reasons:
        return
    nodes = attempt(reasons, "nodes", lambda: [each.id for each in memory_nodes() if each.has_memory and each.allowed])
    there = f"this process may use {format_cpu_list(nodes)}" if nodes else "nodes cannot be listed here"
    denied = "; allow it (docker run --cap-add SYS_NICE)" if "EPERM" in reasons["mbind"] else ""
    raise UnsupportedCase(f"no memory on node {node}: mbind: {reasons['mbind']}{denied}; {there}")


def _check(array: Array, node: int) -> None:
    reasons: dict[str, str] = {}
    share = attempt(reasons, "share", lambda: share_on(array.ctypes.data, node))
    if share is None:
        raise UnsupportedCase(f"memory on node {node} cannot be verified: {reasons['share']}")
    if share < PLACED:
        raise UnsupportedCase(f"only {format_percent(share)} of the pages asked for are on node {node} (numa_maps)")
