"""Where the pages of timed host memory really are: a placement is believed once the kernel shows it page by page.

By move_pages(2), which only asks here; where it is denied, as in Docker and Podman, or leaves pages out, by
/proc/self/numa_maps, which counts whole mappings: a small array shares its mapping with what else the process holds.

Some kernels, such as Linux 6.1, leave out what automatic NUMA balancing has marked to see who accesses it next (commits
474098edac26, d74943a2f3cd). It marks what is far from a thread: the pages that are still shown may all be near.
"""

from __future__ import annotations

import bisect
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from primbench.measurement.readings import Pages
from primbench.numa import mempolicy
from primbench.numa.held import numa_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from io import FileIO

    from primbench.problem import Array

PLACED = 0.99  # share of pages that must be in place: the kernel may have moved a few
MOST_PAGES = 8192  # asking takes 0.3 us for each
AGAIN_S = 0.01
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ENTRY_BYTES = 8
_HELD = 1 << 63 | 1 << 56  # present, and mapped by nobody else: Linux, admin-guide/mm/pagemap.rst


@dataclass(frozen=True)
class HostExtent:
    """Memory that is timed."""

    address: int
    size_bytes: int
    nodes: tuple[int, ...] | None = None
    """Nodes that its pages are to be on: () anywhere, None where the placement says."""

    @property
    def pages(self) -> range:
        """The numbers of the pages it touches."""
        return range(self.address // PAGE_BYTES, -(-(self.address + self.size_bytes) // PAGE_BYTES))


@dataclass(frozen=True)
class Residency:
    """Where pages are. What is not described is as in Pages."""

    by_node: dict[int, int]
    asked: list[int]
    placed_share: float
    """Share of the pages that are where they were to be; 1 where none was to be anywhere."""
    read_by: Literal["numa_maps", "move_pages"]
    sampled_of: int | None = None


def extent_of(array: Array, nodes: tuple[int, ...] | None = None) -> HostExtent:
    """The memory from the first to the last byte of an array, whatever its strides."""
    if not array.size:
        return HostExtent(array.ctypes.data, 0, nodes)
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    first = array.ctypes.data + sum(step for step in steps if step < 0)
    return HostExtent(first, sum(map(abs, steps)) + array.itemsize, nodes)


def look(extents: Iterable[HostExtent], page_nodes: Iterable[int], root: Path = Path("/")) -> Residency:
    """Where the touched pages are now. page_nodes: where the placement puts them; none: anywhere.

    Looks once more where there is no page: while the kernel moves some, these are nowhere.
    Raises OSError where the kernel shows neither, ValueError where it shows no page of these, as of memory that a
    driver allocated.
    """
    ranges = _by_asked(extents, tuple(page_nodes))
    try:
        return _look_once(ranges, root)
    except ValueError:
        time.sleep(AGAIN_S)
        return _look_once(ranges, root)


def _look_once(ranges: _Ranges, root: Path) -> Residency:
    try:
        return _by_move_pages(ranges, root)
    except (OSError, LookupError):
        return _by_numa_maps(ranges, root)


def verdict(before: Residency, after: Residency) -> Pages:
    """What was seen before and after the same extents were timed."""
    return Pages(
        by_node=after.by_node,
        asked=after.asked,
        misplaced=min(before.placed_share, after.placed_share) < PLACED,
        read_by=after.read_by,
        sampled_of=after.sampled_of,
    )


_Ranges = dict[tuple[int, ...], list[range]]


def _by_asked(extents: Iterable[HostExtent], page_nodes: tuple[int, ...]) -> _Ranges:
    """Nodes asked for -> page numbers, each page once: small arrays share theirs."""
    found: _Ranges = {}
    for extent in sorted(extents, key=lambda each: each.address):
        nodes = page_nodes if extent.nodes is None else extent.nodes
        ranges, pages = found.setdefault(nodes, []), extent.pages
        if ranges and pages.start < ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, max(ranges[-1].stop, pages.stop))
        elif pages:
            ranges.append(pages)
    return found


class _Tally:
    """Pages seen so far, and how many of those that were to be somewhere can be there."""

    def __init__(self) -> None:
        self._by_node: Counter[int] = Counter()
        self._asked: set[int] = set()
        self._placed = self._wanted = 0

    def add(self, nodes: Collection[int], counts: Counter[int], ours: int) -> None:
        """ours: how many of the counted pages are the timed ones; which of them, numa_maps does not tell."""
        self._by_node += counts
        if nodes:
            self._asked.update(nodes)
            self._placed += min(ours, sum(counts[node] for node in nodes))
            self._wanted += ours

    def seen(self, read_by: Literal["numa_maps", "move_pages"], sampled_of: int | None = None) -> Residency:
        if not self._by_node:
            raise ValueError(f"{read_by} shows no page of it")
        return Residency(
            by_node=dict(sorted(self._by_node.items())),
            asked=sorted(self._asked),
            placed_share=self._placed / self._wanted if self._wanted else 1.0,
            read_by=read_by,
            sampled_of=sampled_of,
        )


def _by_move_pages(ranges: _Ranges, root: Path) -> Residency:
    total = sum(len(pages) for each in ranges.values() for pages in each)
    stride = -(-total // MOST_PAGES)
    tally = _Tally()
    for nodes, of_nodes in ranges.items():
        counts = _asked_by_move_pages([page for pages in of_nodes for page in _sample(pages, stride)], root)
        tally.add(nodes, counts, counts.total())
    return tally.seen("move_pages", total if stride > 1 else None)


def _asked_by_move_pages(pages: Sequence[int], root: Path) -> Counter[int]:
    """How many are on each node. Raises LookupError where the call leaves some out that are there."""
    found = mempolicy.nodes_of_pages([page * PAGE_BYTES for page in pages])
    left_out = [page for page, node in zip(pages, found, strict=True) if node < 0]
    if left_out and _any_is_held(left_out, root):
        raise LookupError("move_pages leaves out pages that are there")
    return Counter(node for node in found if node >= 0)  # others were never touched


def _any_is_held(pages: Iterable[int], root: Path) -> bool:
    """Whether this process has memory of its own for any of the pages, by their numbers: proc_pid_pagemap(5).

    What was read and never written is not, since it is the kernel's one page of zeros. False where none can be seen.
    """
    try:
        with (root / "proc/self/pagemap").open("rb", buffering=0) as entries:
            return any(_entry(entries, page) & _HELD == _HELD for page in pages)
    except OSError:
        return False


def _entry(entries: FileIO, page: int) -> int:
    entries.seek(page * _ENTRY_BYTES)
    return int.from_bytes(entries.read(_ENTRY_BYTES), sys.byteorder)


def _sample(pages: range, stride: int) -> list[int]:
    """A page of every ``stride``, at random places: interleaved pages have a stride of their own."""
    if stride <= 1:
        return list(pages)
    rng = random.Random(0)
    strips = (pages[start : start + stride] for start in range(0, len(pages), stride))
    return [strip[int(rng.random() * len(strip))] for strip in strips]


def _by_numa_maps(ranges: _Ranges, root: Path) -> Residency:
    starts, counted = _numa_maps(root)
    tally = _Tally()
    for nodes, of_nodes in ranges.items():
        mappings = sorted({mapping for pages in of_nodes for mapping in _mappings_of(pages, starts)})
        counts: Counter[int] = sum((counted[mapping] for mapping in mappings), Counter())
        tally.add(nodes, counts, min(counts.total(), sum(map(len, of_nodes))))
    return tally.seen("numa_maps")


def _numa_maps(root: Path) -> tuple[list[int], list[Counter[int]]]:
    """The mappings' addresses, ascending, and their pages by node."""
    mappings = list(numa_maps(root))
    return [each.address for each in mappings], [each.pages for each in mappings]


def _mappings_of(pages: range, starts: list[int]) -> range:
    """Indices of the mappings that the pages lie in. starts: first addresses of all mappings, ascending."""
    first = bisect.bisect_right(starts, pages.start * PAGE_BYTES) - 1
    return range(max(first, 0), bisect.bisect_left(starts, pages.stop * PAGE_BYTES))
