from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from primbench import hostbuffer, hostmemory, placement, topology
from primbench.errors import UnsupportedCase
from primbench.hostbuffer import host_buffer, share_on


def usable_node() -> int:
    """A node on which pages can be bound here."""
    if not os.path.exists("/proc/self/numa_maps"):
        pytest.skip("needs a kernel with /proc/self/numa_maps (or root of one)")
    node = next(each.id for each in topology.memory_nodes() if each.has_memory and each.allowed)
    pages = host_buffer(4096)
    try:
        placement.bind_pages(pages.ctypes.data, pages.nbytes, node)
    except PermissionError:
        pytest.skip("needs CAP_SYS_NICE, as root has it: mbind is denied here")
    return node


@pytest.mark.parametrize("size", [1, 4096, 5_000_001])
def test_a_buffer_is_touched_writable_and_of_its_own(size: int) -> None:
    one, other = host_buffer(size), host_buffer(size)
    assert ((size,), np.dtype("int8")) == (one.shape, one.dtype)
    assert one.all()
    one[:] = 7
    assert 7 not in other
    assert one.ctypes.data % 4096 == 0


def test_pages_are_bound_and_seen_on_the_node() -> None:
    node = usable_node()
    buffer = host_buffer(1_000_000, node)
    assert share_on(buffer.ctypes.data, node) >= hostbuffer.PLACED
    policies = [line.split()[1] for line in Path("/proc/self/numa_maps").read_text().splitlines()]
    assert f"bind:{node}" in policies


def test_a_node_that_is_not_there_is_refused_with_those_that_are() -> None:
    usable_node()
    with pytest.raises(UnsupportedCase, match=r"no memory on node 1000: mbind: .*EINVAL; this process may use \d"):
        host_buffer(4096, 1000)


def test_a_denied_call_says_how_to_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*arguments: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(placement, "bind_pages", deny)
    with pytest.raises(UnsupportedCase, match=r"node 0: mbind: .*EPERM; allow it \(docker run --cap-add SYS_NICE\)"):
        host_buffer(4096, 0)


def test_a_machine_whose_call_number_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "SYSTEM_CALLS", {})
    with pytest.raises(UnsupportedCase, match=r"the number of mbind on .* is not known"):
        host_buffer(4096, 0)


def test_pages_that_went_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "bind_pages", lambda *arguments: None)
    monkeypatch.setattr(hostbuffer, "share_on", lambda address, node: 0.37)
    with pytest.raises(UnsupportedCase, match=r"only 37.0% of the pages asked for are on node 0"):
        host_buffer(4096, 0)


def test_more_than_there_is_free_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostmemory, "available_memory_bytes", lambda: 4096)
    with pytest.raises(UnsupportedCase, match=r"needs 8 KiB more, 4 KiB free"):
        host_buffer(8192)


NUMA_MAPS = """\
1000 default file=/lib/N0=7/libc.so mapped=3 N0=3 kernelpagesize_kB=4
5000 bind:1 anon=100 dirty=100 N0=1 N1=99 kernelpagesize_kB=4
9000 default
b000 default stack anon=2 N1=2 kernelpagesize_kB=4
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/numa_maps").write_text(NUMA_MAPS)
    return tmp_path


@pytest.mark.parametrize(
    ("address", "node", "share"), [(0x5000, 1, 0.99), (0x6000, 0, 0.01), (0x5000, 2, 0.0), (0xFFFF, 1, 1.0)]
)
def test_the_share_is_that_of_the_mapping_that_holds_the_address(
    root: Path, address: int, node: int, share: float
) -> None:
    assert share == share_on(address, node, root)


@pytest.mark.parametrize("address", [0x10, 0x9500], ids=["before the first", "nothing touched"])
def test_an_address_without_pages_is_an_error(root: Path, address: int) -> None:
    with pytest.raises(ValueError, match="numa_maps names no page"):
        share_on(address, 0, root)


def test_a_kernel_without_the_file_cannot_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(address: int, node: int) -> float:
        raise FileNotFoundError(2, "No such file or directory", "/proc/self/numa_maps")

    monkeypatch.setattr(placement, "bind_pages", lambda *arguments: None)
    monkeypatch.setattr(hostbuffer, "share_on", no_file)
    with pytest.raises(UnsupportedCase, match=r"node 0 cannot be verified: /proc/self/numa_maps: ENOENT"):
        host_buffer(4096, 0)
