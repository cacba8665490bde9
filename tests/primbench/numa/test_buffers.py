from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from primbench.errors import UnsupportedCase
from primbench.numa import mempolicy, scan
from primbench.numa.buffers import host_buffer
from primbench.numa.pages import extent_of, look
from primbench.system import memory

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")


def usable_node() -> int:
    """A node on which pages can be bound here."""
    try:
        mempolicy.probe("mbind")
    except OSError as error:
        pytest.skip(f"mbind is denied here, needs root outside of containers: {error}")
    return next(each.id for each in scan.memory_nodes() if each.has_memory and each.allowed)


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
    assert [node] == list(look([extent_of(buffer)], []).by_node)
    lines = [line.split() for line in Path("/proc/self/numa_maps").read_text().splitlines()]
    assert f"bind:{node}" in [line[1] for line in lines if int(line[0], 16) <= buffer.ctypes.data][-1]


def test_a_node_that_is_not_there_is_refused_with_those_that_are() -> None:
    usable_node()
    with pytest.raises(UnsupportedCase, match=r"no memory on node 1000: mbind: .*EINVAL; this process may use \d"):
        host_buffer(4096, 1000)


def test_a_denied_call_says_how_to_allow_it() -> None:
    ask = "from primbench.numa.buffers import host_buffer; host_buffer(4096, 0)"
    child = [sys.executable, "-P", SECCOMP, "--deny", "mbind", "--", sys.executable, "-P", "-c", ask]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    assert "UnsupportedCase: no memory on node 0: mbind: Operation not permitted: allow it (docker run" in done.stderr


def test_a_machine_whose_call_number_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mempolicy, "SYSTEM_CALLS", {})
    with pytest.raises(UnsupportedCase, match=r"the number of mbind on .* is not known"):
        host_buffer(4096, 0)


def test_more_than_there_is_free_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 4096)
    with pytest.raises(UnsupportedCase, match=r"needs 8 KiB more, 4 KiB free"):
        host_buffer(8192)
