from __future__ import annotations

import json
import mmap
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.numa import mempolicy, pages
from primbench.numa.buffers import host_buffer
from primbench.numa.pages import MOST_PAGES, PAGE_BYTES, HostExtent, Residency, extent_of, look, verdict
from primbench.numa.scan import memory_nodes

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")
PAGE = PAGE_BYTES

# Mappings at pages 1, 5, 9 and 11; what the kernel shows of one page is one line.
NUMA_MAPS = f"""\
{PAGE:x} default file=/lib/N0=7/libc.so mapped=3 N0=3 kernelpagesize_kB=4
{5 * PAGE:x} bind:1 anon=100 dirty=100 N0=1 N1=99 kernelpagesize_kB=4
{9000 * PAGE:x} default
{9011 * PAGE:x} default heap anon=50 N0=40 N1=10 kernelpagesize_kB=4
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded machine of two nodes; move_pages is not asked of the real one."""
    monkeypatch.setattr(mempolicy, "SYSTEM_CALLS", {})
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/numa_maps").write_text(NUMA_MAPS)
    return tmp_path


def nodes_here() -> set[int]:
    return {each.id for each in memory_nodes() if each.has_memory}


def at(page: int, pages: int, *nodes: int) -> HostExtent:
    return HostExtent(page * PAGE, pages * PAGE, nodes or None)


@pytest.mark.parametrize(
    ("array", "offset", "size_bytes"),
    [
        (np.zeros(10, np.int8), 0, 10),
        (np.zeros((4, 6), np.float32).T, 0, 96),
        (np.zeros(10, np.int64)[::-1], -72, 80),
        (np.zeros((8, 8), np.int8)[2:4, 1:3], 0, 10),
        (np.zeros((0, 3)), 0, 0),
        (np.array(1.0), 0, 8),
    ],
    ids=["vector", "transposed", "backwards", "a corner", "empty", "scalar"],
)
def test_an_extent_is_from_the_first_byte_to_the_last(array: Any, offset: int, size_bytes: int) -> None:
    assert HostExtent(array.ctypes.data + offset, size_bytes) == extent_of(array)


def test_pages_are_those_that_are_touched() -> None:
    assert range(1, 3) == HostExtent(2 * PAGE - 1, 2).pages
    assert range(1, 2) == HostExtent(PAGE, PAGE).pages
    assert range(1, 1) == HostExtent(PAGE, 0).pages


def test_every_page_of_real_memory_is_found() -> None:
    buffer = host_buffer(100 * PAGE)
    seen = look([extent_of(buffer)], [])
    assert set(seen.by_node) <= nodes_here()
    if seen.read_by == "move_pages":
        assert 100 == sum(seen.by_node.values())
    assert (1.0, None, []) == (seen.placed_share, seen.sampled_of, seen.asked)


def test_small_arrays_that_share_a_page_count_it_once() -> None:
    buffer = host_buffer(PAGE)
    seen = look([extent_of(buffer[:10]), extent_of(buffer[100:]), extent_of(buffer[5:200])], [])
    if seen.read_by == "numa_maps":
        pytest.skip("move_pages is denied here, which root outside of containers is not")
    assert 1 == sum(seen.by_node.values())


def test_a_large_buffer_is_sampled() -> None:
    pages = 3 * MOST_PAGES
    buffer = host_buffer(pages * PAGE)
    seen = look([extent_of(buffer)], [])
    if seen.read_by == "numa_maps":
        pytest.skip("move_pages is denied here, which root outside of containers is not")
    assert pages == seen.sampled_of
    assert 0.99 * MOST_PAGES <= sum(seen.by_node.values()) <= MOST_PAGES


@pytest.mark.parametrize("nodes", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("stride", [2, 3, 4, 6, 8, 12, 512])
def test_a_sample_sees_interleaved_pages_evenly(nodes: int, stride: int) -> None:
    sample = pages._sample(range(1000, 1000 + 6000 * stride), stride)
    assert sample == sorted(set(sample))
    counts = Counter(page % nodes for page in sample)
    assert nodes == len(counts)
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_memory_that_was_never_touched_is_nowhere() -> None:
    untouched = np.frombuffer(mmap.mmap(-1, 4 * PAGE), np.int8)
    touched = host_buffer(1)
    if "move_pages" != look([extent_of(touched)], []).read_by:
        pytest.skip("move_pages is denied here, which root outside of containers is not")
    with pytest.raises(ValueError, match="move_pages shows no page of it"):
        look([extent_of(untouched)], [])


def test_a_denied_call_is_made_up_for_by_the_file() -> None:
    code = """
import json
from primbench.numa.buffers import host_buffer
from primbench.numa.pages import extent_of, look
buffer = host_buffer(1 << 20)  # which is given back with its last view
seen = look([extent_of(buffer)], [])
print(json.dumps([seen.read_by, sum(seen.by_node.values())]))
"""
    child = [sys.executable, "-P", SECCOMP, "--deny", "move_pages", "--", sys.executable, "-P", "-c", code]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read_by, pages = json.loads(done.stdout)
    assert "numa_maps" == read_by
    assert pages >= 2**20 // PAGE


@pytest.mark.parametrize(
    ("extent", "by_node", "share"),
    [
        (at(5, 100, 1), {0: 1, 1: 99}, 0.99),
        (at(6, 50, 0), {0: 1, 1: 99}, 0.02),
        (at(5, 100, 0, 1), {0: 1, 1: 99}, 1.0),
        (at(5, 100, 7), {0: 1, 1: 99}, 0.0),
        (at(9011, 10, 1), {0: 40, 1: 10}, 1.0),
        (at(9011, 20, 1), {0: 40, 1: 10}, 0.5),
        (at(4, 2, 0), {0: 4, 1: 99}, 1.0),
    ],
    ids=["exact", "elsewhere", "either", "no such", "shared, could be ours", "shared, too few", "over two mappings"],
)
def test_the_file_counts_mappings(root: Path, extent: HostExtent, by_node: dict[int, int], share: float) -> None:
    seen = look([extent], [], root)
    assert (by_node, share) == (seen.by_node, seen.placed_share)
    assert sorted(extent.nodes or ()) == seen.asked


def test_buffers_are_held_to_the_nodes_that_each_was_asked_for(root: Path) -> None:
    seen = look([at(1, 3, 0), at(5, 100, 1)], [7], root)
    assert ([0, 1], {0: 4, 1: 99}) == (seen.asked, seen.by_node)
    assert pytest.approx(102 / 103) == seen.placed_share


def test_what_names_no_node_is_held_to_the_placement(root: Path) -> None:
    assert ([1], 0.99) == (look([at(5, 100)], [1], root).asked, look([at(5, 100)], [1], root).placed_share)
    assert ([], 1.0) == (look([at(5, 100)], [], root).asked, look([at(5, 100)], [], root).placed_share)


@pytest.mark.parametrize("page", [0, 9005], ids=["before the first", "nothing touched"])
def test_an_address_without_pages_is_an_error(root: Path, page: int) -> None:
    with pytest.raises(ValueError, match="numa_maps shows no page"):
        look([HostExtent(page * PAGE, 10)], [], root)


def test_where_no_page_is_seen_it_is_looked_once_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / "proc/self/numa_maps"
    file.write_text(NUMA_MAPS.replace("N0=1 N1=99", ""))
    monkeypatch.setattr("time.sleep", lambda _: file.write_text(NUMA_MAPS))
    assert {0: 1, 1: 99} == look([at(5, 100)], [], root).by_node


HELD, ALSO_BY_OTHERS = 1 << 63 | 1 << 56, 1 << 63


@pytest.mark.parametrize(
    ("entry", "read_by", "by_node"),
    [(HELD, "numa_maps", {0: 1, 1: 99}), (ALSO_BY_OTHERS, "move_pages", {0: 9}), (0, "move_pages", {0: 9})],
    ids=["marked by NUMA balancing", "of zeros", "never touched"],
)
def test_pages_that_the_call_leaves_out_are_counted_by_the_file_where_they_are_there(
    root: Path, monkeypatch: pytest.MonkeyPatch, entry: int, read_by: str, by_node: dict[int, int]
) -> None:
    monkeypatch.setattr(mempolicy, "nodes_of_pages", lambda addresses: [0] * 9 + [-2] * (len(addresses) - 9))
    entries = [HELD] * (5 + 9) + [entry] * 91
    (root / "proc/self/pagemap").write_bytes(b"".join(each.to_bytes(8, sys.byteorder) for each in entries))
    seen = look([at(5, 100)], [], root)
    assert (read_by, by_node) == (seen.read_by, seen.by_node)


def test_a_kernel_without_the_file_shows_nothing(root: Path) -> None:
    (root / "proc/self/numa_maps").unlink()
    with pytest.raises(FileNotFoundError):
        look([at(5, 1)], [], root)


def seen(share: float) -> Residency:
    return Residency(by_node={0: 1}, asked=[1], placed_share=share, read_by="move_pages", sampled_of=9)


@pytest.mark.parametrize(("before", "after", "misplaced"), [(1.0, 0.99, False), (1.0, 0.98, True), (0.5, 1.0, True)])
def test_pages_are_misplaced_before_or_after(before: float, after: float, misplaced: bool) -> None:
    pages = verdict(seen(before), seen(after))
    assert misplaced == pages.misplaced
    assert ({0: 1}, [1], "move_pages", 9) == (pages.by_node, pages.asked, pages.read_by, pages.sampled_of)
