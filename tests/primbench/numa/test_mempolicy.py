"""Real system calls, each change in a process of its own: a policy stays with the thread that set it."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from primbench.numa import mempolicy
from primbench.numa.mempolicy import SYSTEM_CALLS, nodes_of_pages
from primbench.numa.scan import memory_nodes

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")
CALLS = ("get_mempolicy", "set_mempolicy", "mbind", "move_pages")
HEADER = Path("/usr/include/asm-generic/unistd.h")


def denied(call: str) -> bool:
    try:
        mempolicy.probe(call)
    except OSError:
        return True
    return False


DENIED = [call for call in CALLS if denied(call)]
needs_all = pytest.mark.skipif(bool(DENIED), reason=f"{DENIED} denied here: needs root outside of containers")


def node() -> int:
    return next(each.id for each in memory_nodes() if each.has_memory and each.allowed)


def child(code: str, *wrapper: Any) -> Any:
    """What the code prints, as JSON. wrapper: the program that starts it."""
    command = [*wrapper, sys.executable, "-P", "-c", "import json\nfrom primbench.numa import mempolicy\n" + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def after(policy: str, nodes: list[int]) -> Any:
    code = f"mempolicy.set_policy({policy!r}, {nodes})\nprint(json.dumps(mempolicy.current_policy()))"
    return child(code)


@pytest.mark.skipif(not HEADER.exists(), reason="the kernel's headers for user programs are not installed")
def test_the_numbers_of_newer_architectures_are_those_of_the_header() -> None:
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text()))
    assert {call: int(numbers[call]) for call in CALLS} == SYSTEM_CALLS["aarch64"]


@needs_all
@pytest.mark.parametrize("policy", ["bind", "preferred", "interleave"])
def test_a_policy_with_nodes_is_in_force_as_set(policy: str) -> None:
    assert [policy, [node()]] == after(policy, [node()])


@needs_all
@pytest.mark.parametrize("policy", ["local", "default"])
def test_a_policy_without_nodes_is_in_force_as_set(policy: str) -> None:
    assert [policy, []] == after(policy, [])


@needs_all
def test_preferring_several_nodes_prefers_them_all() -> None:
    """One of them is not there, which the kernel leaves out and takes the others."""
    assert ["preferred many", [node()]] == after("preferred", [node(), 900])


@needs_all
def test_a_policy_is_inherited_by_threads_started_later() -> None:
    code = """
import threading
seen = []
mempolicy.set_policy("bind", [%d])
thread = threading.Thread(target=lambda: seen.append(mempolicy.current_policy()))
thread.start(); thread.join()
print(json.dumps(seen[0]))
"""
    assert ["bind", [node()]] == child(code % node())


@needs_all
def test_a_node_that_is_not_there_is_refused_by_the_kernel() -> None:
    with pytest.raises(OSError, match="a node that does not exist, or outside the cpuset") as refused:
        mempolicy.set_policy("bind", [900])
    assert errno.EINVAL == refused.value.errno


@pytest.mark.parametrize("number", [-1, 1024, 5000])
def test_a_node_beyond_every_kernel_is_refused(number: int) -> None:
    with pytest.raises(LookupError, match="0 to 1023"):
        mempolicy.set_policy("bind", [number])


@needs_all
def test_pages_are_where_they_were_bound_and_untouched_ones_nowhere() -> None:
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_byte.from_buffer(pages))
    mempolicy.bind_pages(address, len(pages), [node()])
    pages[0] = pages[2 * mmap.PAGESIZE] = 1
    found = nodes_of_pages([address + i * mmap.PAGESIZE for i in range(4)])
    assert [node(), -errno.ENOENT, node(), -errno.ENOENT] == found


@needs_all
@pytest.mark.parametrize("call", CALLS)
def test_a_probe_changes_nothing(call: str) -> None:
    code = """
mempolicy.set_policy("preferred", [%d])
mempolicy.probe(%r)
print(json.dumps(mempolicy.current_policy()))
"""
    assert ["preferred", [node()]] == child(code % (node(), call))


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("call", CALLS)
def test_a_probe_finds_what_a_filter_refuses(call: str, error: str) -> None:
    code = """
found = {}
for call in %r:
    try:
        mempolicy.probe(call)
    except OSError as error:
        found[call] = error.errno
print(json.dumps(found))
"""
    filtered = (sys.executable, "-P", SECCOMP, "--errno", error, "--deny", call, "--")
    found = child(code % (CALLS,), *filtered)
    assert getattr(errno, error) == found[call]
    assert set(found) - {call} <= set(DENIED)


def test_a_processor_without_known_numbers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mempolicy, "SYSTEM_CALLS", {})
    with pytest.raises(LookupError, match=r"the number of get_mempolicy on .* is not known"):
        mempolicy.current_policy()
