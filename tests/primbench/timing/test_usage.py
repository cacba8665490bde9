"""What a process and those it started use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from primbench.devices import CPU, Device
from primbench.timing.usage import pss_bytes, readers, rss_bytes

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A process that starts another one from a second thread; both wait.
FAMILY = """
import subprocess, sys, threading
def start():
    held = bytes(64 * 2**20)  # zeros that the kernel need not give
    child = subprocess.Popen([sys.executable, "-c", "held = b'1' * (50 * 2**20); print(flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    print(child.pid, flush=True)
    child.wait()
threading.Thread(target=start, daemon=True).start()
input()
"""


def process(root: Path, pid: int, children: str, pages: int, pss: str = "") -> None:
    folder = root / f"proc/{pid}"
    (folder / f"task/{pid}").mkdir(parents=True)
    (folder / f"task/{pid}/children").write_text(children)
    (folder / "statm").write_text(f"99 {pages} 1 1 0 1 0\n")
    (folder / "smaps_rollup").write_text(f"0-1 ---p 0 00:00 0 [rollup]\nRss: 7 kB\nPss: {pss} kB\n" if pss else "")


def test_descendants_of_all_threads_count_as_the_kernel_counts_them() -> None:
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        both = [psutil.Process(parent.pid), psutil.Process(int(parent.stdout.readline()))]
        expected = sum(each.memory_info().rss for each in both)
        assert pytest.approx(expected, rel=0.02) == rss_bytes(parent.pid)
        assert expected > rss_bytes(both[1].pid) > 50 * 2**20
        assert 50 * 2**20 < pss_bytes(parent.pid) < expected
        both[1].kill()
        parent.kill()


def test_the_process_that_watches_does_not_count(tmp_path: Path) -> None:
    process(tmp_path, 5_000_001, f"5000002 {os.getpid()} ", 100, "40")
    process(tmp_path, 5_000_002, "", 10, "2")
    process(tmp_path, os.getpid(), "", 1000, "1000")
    assert 110 * PAGE_BYTES == rss_bytes(5_000_001, tmp_path)
    assert 42 * 1024 == pss_bytes(5_000_001, tmp_path)


def test_a_child_that_has_just_ended_is_left_out_and_the_process_itself_is_not(tmp_path: Path) -> None:
    process(tmp_path, 5_000_001, "5000002 5000003", 100)
    process(tmp_path, 5_000_003, "", 1)
    assert 101 * PAGE_BYTES == rss_bytes(5_000_001, tmp_path)
    with pytest.raises(FileNotFoundError):
        rss_bytes(5_000_002, tmp_path)


def test_a_child_that_is_still_in_its_parents_memory_holds_none_of_its_own(tmp_path: Path) -> None:
    process(tmp_path, 5_000_001, "5000002", 100)
    process(tmp_path, 5_000_002, "", 100)
    assert 100 * PAGE_BYTES == rss_bytes(5_000_001, tmp_path)


def test_a_kernel_that_lists_no_children_is_a_reason(tmp_path: Path) -> None:
    process(tmp_path, 5_000_001, "", 100)
    (tmp_path / "proc/5000001/task/5000001/children").unlink()
    missing: dict[str, str] = {}
    with readers(5_000_001, Device(CPU), missing, tmp_path) as found:
        assert {"host_rss_bytes": None} == found[0](missing)
    assert missing["host_rss_bytes"].endswith("children: ENOENT")


@pytest.mark.parametrize("usage", ["memory.current", "memory.usage_in_bytes"])
def test_a_control_groups_memory_is_that_of_the_nearest_one(tmp_path: Path, usage: str) -> None:
    is_v2 = usage == "memory.current"
    kind, top = ("cgroup2", "sys/fs/cgroup") if is_v2 else ("cgroup", "sys/fs/cgroup/memory")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n" if is_v2 else "4:memory:/job\n")
    (tmp_path / "proc/self/mountinfo").write_text(f"1 2 0:3 / /{top} rw - {kind} {kind} rw,memory\n")
    (tmp_path / top / "job").mkdir(parents=True)
    missing: dict[str, str] = {}
    with readers(1, Device(CPU), missing, tmp_path) as found:
        assert 2 == len(found)
    assert "counts no memory" in missing["group_bytes"]
    (tmp_path / top / usage).write_text("999\n")
    (tmp_path / top / "job" / usage).write_text("123\n")
    with readers(1, Device(CPU), {}, tmp_path) as found:
        assert {"group_bytes": 123} == found[-1]({})
