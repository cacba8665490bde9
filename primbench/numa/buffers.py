"""Host memory for copies: pages of their own, touched, and on the memory node that was asked for.

A library's allocator would hand out pages that were touched before, on whatever node that was.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.numa import mempolicy
from primbench.numa.scan import memory_nodes
from primbench.system import memory
from primbench.system.files import attempt, format_cpu_list
from primbench.units import format_bytes

if TYPE_CHECKING:
    from primbench.problem import Array


def host_buffer(size_bytes: int, node: int | None = None) -> Array:
    """An int8 array in pages that nobody used before, none of them zero; given back with its last view.

    node: the memory node that all pages are to be on; None leaves it to the policy of this process.
    Raises UnsupportedCase where there is not so much memory, or none can be bound to that node.
    """
    import numpy as np

    free = memory.available_memory_bytes()
    if size_bytes > free:  # pages are taken when touched, and what is taken beyond this ends the process
        raise UnsupportedCase(f"needs {format_bytes(size_bytes)} more, {format_bytes(free)} free on this host")
    pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages; NumPy asks for them in its own arrays, too
        pages.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(pages, np.int8)
    if node is not None:
        _bind(array, node)
    array.fill(1)
    return array


def _bind(array: Array, node: int) -> None:
    reasons: dict[str, str] = {}
    attempt(reasons, "mbind", lambda: mempolicy.bind_pages(array.ctypes.data, array.nbytes, [node]))
    if not reasons:
        return
    nodes = attempt(reasons, "nodes", lambda: [each.id for each in memory_nodes() if each.is_usable])
    there = f"this process may use {format_cpu_list(nodes)}" if nodes else "nodes cannot be listed here"
    raise UnsupportedCase(f"no memory on node {node}: mbind: {reasons['mbind']}; {there}")
