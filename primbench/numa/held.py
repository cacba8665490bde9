"""Where the memory of a process is, and by which policies it was placed: its numa_maps, for it and root to read."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.system.files import attempt
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_USUAL_PAGE_KIB = 4


class Mapping(NamedTuple):
    """A line of numa_maps, proc_pid_numa_maps(5)."""

    address: int
    policy: str
    pages: Counter[int]
    """Node -> pages, of ``page_bytes`` each."""
    page_bytes: int


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that a process holds, by what was asked of it. None is unknown, with the reason in ``missing``."""

    by_node: dict[int, int] | None = None
    """Node -> bytes."""
    by_policy: dict[str, int] | None = None
    """Policy -> bytes, such as {"bind:0": 4096}."""
    missing: dict[str, str] = {}


def collect(root: Path, pid: int = 0) -> Held:
    """Of a process, 0 this one. Never raises."""
    missing: dict[str, str] = {}
    mappings = attempt(missing, "by_node", lambda: list(numa_maps(root, pid)))
    if mappings is None:
        return Held(missing=missing | {"by_policy": missing["by_node"]})
    by_node: Counter[int] = Counter()
    by_policy: Counter[str] = Counter()
    for each in mappings:
        for node, count in each.pages.items():
            by_node[node] += count * each.page_bytes
            by_policy[each.policy] += count * each.page_bytes
    return Held(by_node=dict(sorted(by_node.items())), by_policy=dict(by_policy.most_common()))


def numa_maps(root: Path, pid: int = 0) -> Iterator[Mapping]:
    """The mappings in the order of their addresses. Raises OSError."""
    for line in (folder_of(root, pid) / "numa_maps").read_text(errors="backslashreplace").splitlines():
        address, policy, *words = line.split()
        counts = (found for word in words if (found := re.fullmatch(r"N([0-9]+)=([0-9]+)", word)))
        size = re.search(r" kernelpagesize_kB=([0-9]+)", line)
        kib = int(size[1]) if size else _USUAL_PAGE_KIB
        yield Mapping(int(address, 16), policy, Counter({int(node[1]): int(node[2]) for node in counts}), 1024 * kib)
