"""What `primbench numa` measures: copies and launches of a GPU, copies and loads within the host, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.devices import Device
from primbench.registry import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.problem import Problem
    from primbench.spec.case import Case

COPY, LAUNCH, CHASE = "memcpy", "launch", "chase"
COPIES = {
    f"{direction} {memory}": (direction, memory) for memory in ("pinned", "pageable") for direction in ("h2d", "d2h")
}
"""Kind -> direction and memory."""
HOST_COPY = "h2h"
KINDS = (*COPIES, LAUNCH, HOST_COPY, CHASE)
OF_GPU = (COPY, LAUNCH)


def of_memory(device: str, size_bytes: int, node: int) -> Iterator[Problem]:
    """Problems that use the memory of a node; -1 leaves the node to the thread that touches it first."""
    if not Device.parse(device).is_gpu:
        yield build(COPY, {"bytes": size_bytes, "direction": HOST_COPY, "src_node": node, "dst_node": node})
        yield build(CHASE, {"bytes": size_bytes, "node": node})
        return
    for direction, memory in COPIES.values():
        end = {"src_node" if direction == "h2d" else "dst_node": node}
        yield build(COPY, {"bytes": size_bytes, "direction": direction, "memory": memory, **end})


def without_memory(device: str) -> Iterator[Problem]:
    """An empty kernel, the same with every framework."""
    if Device.parse(device).is_gpu:
        yield build(LAUNCH, {"call": "ctypes"})


def kind_of(case: Case) -> str:
    """One of KINDS."""
    direction, memory = case.parameters.get("direction"), case.parameters.get("memory")
    copy = next((kind for kind, ends in COPIES.items() if ends == (direction, memory)), None)
    return copy or f"{direction or case.primitive}"
