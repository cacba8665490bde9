"""Looks between two moments, at processes of a tree of files."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path, PurePosixPath

import pytest

from primbench.system import cgroups
from primbench.system.neighbours import cpu_times, neighbours
from primbench.watching import calls
from primbench.watching.members import JobMembers, in_groups_of
from primbench.watching.moment import read
from primbench.watching.watch import Watch


def test_a_process_that_follows_one_that_ended_is_looked_at_and_counts_for_who_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a shell that starts one program after the other: 7 starts 8, and then 9, which is blocked."""

    now_s = [0.0]

    def write(pid: int, state: str, parent: int) -> None:
        fields = [state, str(parent), *["0"] * 50]
        for path in (tmp_path / f"proc/{pid}/stat", tmp_path / f"proc/{pid}/task/{pid}/stat"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{pid} (sh) {' '.join(fields)}\n")

    def sleep(lasting_s: float) -> None:
        now_s[0] += lasting_s
        shutil.rmtree(tmp_path / "proc/8", ignore_errors=True)
        write(9, "D", 7)
        (tmp_path / "proc/9/task/9/stack").write_text("[<0>] folio_wait_bit+0x1/0x2\n[<0>] do_fsync+0x3/0x4\n")

    write(7, "S", 1)
    write(8, "S", 7)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    (seen,) = Watch([7], 0.5, tmp_path)
    assert (5, {7: 5}) == (seen.looks, seen.blocked)
    assert {"do_fsync": 5} == seen.blocked_in


@pytest.mark.parametrize(("state", "asleep"), [("R", 0), ("S", 5)])
def test_who_waits_for_one_short_process_after_the_other_sleeps_as_these_do(
    state: str, asleep: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 forks one for each item, so that each look meets another one, and none is there when a stretch begins."""
    now_s = [0.0]

    def write(pid: int, state: str, parent: int) -> None:
        for path in (tmp_path / f"proc/{pid}/stat", tmp_path / f"proc/{pid}/task/{pid}/stat"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{pid} (sh) {state} {parent} {' '.join(['0'] * 50)}\n")

    def sleep(lasting_s: float) -> None:
        now_s[0] += lasting_s
        item = 10 + round(10 * now_s[0])
        shutil.rmtree(tmp_path / f"proc/{item - 1}", ignore_errors=True)
        write(item, state, 7)
        (tmp_path / "proc/7/task/7/children").write_text(f"{item} ")

    write(7, "S", 1)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    (seen,) = Watch([7], 0.5, tmp_path)
    assert (5, asleep) == (seen.looks, seen.asleep)


@pytest.mark.parametrize(("kind", "blocked"), [("fuse.sshfs", {7: 5}), ("ext4", {})])
def test_who_waits_for_a_process_that_answers_for_files_is_blocked(
    kind: str, blocked: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "sleep", lambda lasting_s: now_s.append(now_s.pop() + lasting_s))
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    thread = tmp_path / "proc/7/task/7"
    thread.mkdir(parents=True)
    for folder in (thread, thread.parents[1]):
        (folder / "stat").write_text(f"7 (sh) S 1 {' '.join(['0'] * 50)}\n")
    (thread / "wchan").write_text("request_wait_answer")
    (thread / "stack").write_text("[<0>] request_wait_answer+0x1/0x2\n[<0>] fuse_simple_request+0x3/0x4\n")
    (tmp_path / "proc/7/mountinfo").write_text(f"31 1 0:9 / /data rw - {kind} far rw\n")
    (seen,) = Watch([7], 0.5, tmp_path)
    assert (5, blocked) == (seen.looks, seen.blocked)
    assert [*seen.blocked_in] == ["request_wait_answer"] * len(blocked)


def test_who_is_started_in_a_container_later_on_is_of_the_job_and_so_is_what_it_starts(tmp_path: Path) -> None:
    """As by `docker exec`, which forks a process outside that it moves into the container's groups then."""

    def write(pid: int | str, parent: int, group: str) -> None:
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{pid} (sh) S {parent} {' '.join(['0'] * 50)}\n")
        (folder / "cgroup").write_text(f"4:memory:{group}\n3:cpuset:/\n0::/unit{group}\n")

    write("self", 1, "/session")
    write(7, 1, "/docker/4f")
    write(8, 1, "/docker/4f7")
    write(9, 1, "/session")
    write(10, 9, "/session")
    members = JobMembers(tmp_path, [7], in_groups_of(tmp_path, 7))
    members.find(7)
    assert [7] == [*members.started_by]
    write(10, 9, "/docker/4f/below")
    write(11, 10, "/elsewhere")
    members.find(7)
    assert {7: None, 10: None, 11: 10} == members.started_by
    write(12, 1, "/session")
    alone = JobMembers(tmp_path, [12], in_groups_of(tmp_path, 12))
    alone.find(12)
    assert [12] == [*alone.started_by], "groups that who asks is in itself set nobody apart"


def test_neighbours_are_those_that_used_most_meanwhile_and_none_of_the_job(tmp_path: Path) -> None:
    """9 is another process than the one that had its number before."""
    ticks = os.sysconf("SC_CLK_TCK")

    def write(pid: int, used_s: float, started: int = 1) -> None:
        fields = ["S", "1", *["0"] * 9, str(round(used_s * ticks)), "0", *["0"] * 6, str(started), *["0"] * 20]
        (tmp_path / f"proc/{pid}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (sh) {' '.join(fields)}\n")

    for pid in range(7, 13):
        write(pid, 100)
    before = cpu_times(tmp_path)
    for pid, used_s in {7: 110, 8: 103, 10: 100.1, 11: 101, 12: 102}.items():
        write(pid, used_s)
    write(9, 6, started=2)
    found = neighbours(tmp_path, before, cpu_times(tmp_path), [7], 10.0)
    assert [(9, 6), (8, 3), (12, 2)] == [(each.pid, round(each.cpu_time_s, 6)) for each in found]


def test_of_a_thread_that_has_not_run_since_no_more_is_read(tmp_path: Path) -> None:
    """Of two threads 8 runs on, and both files with what the scheduler counts of them are replaced."""

    def write(number: int, ran_ns: int, migrations: int) -> None:
        folder = tmp_path / f"proc/7/task/{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{ran_ns} 5 1\n")
        (folder / "sched").write_text(f"train (7, #threads: 2)\nse.nr_migrations : {migrations}\nnr_switches : 9\n")

    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text(f"7 (train) S 1 {' '.join(['0'] * 50)}\n")
    for number in (7, 8):
        write(number, 10, migrations=1)
    before = read(tmp_path, [7])
    for number, ran_ns in ((7, 10), (8, 20)):
        write(number, ran_ns, migrations=3)
    for earlier, expected in ((before, {"7": 1, "8": 3}), (None, {"7": 3, "8": 3})):
        threads = read(tmp_path, [7], earlier).processes[7].threads
        assert expected == {number: each.migrations for number, each in threads.items()}


def test_what_a_process_has_mapped_is_listed_again_once_it_has_loaded_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or where the kernel does not tell how much code it has; nor more often than every few seconds."""
    now_s, listed = [0.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(calls, "loaded_path", lambda library, maps: listed.append(now_s[0]))
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text(f"7 (train) S 1 {' '.join(['0'] * 50)}\n")
    (tmp_path / "proc/7/maps").touch()
    counters = calls.Counters(tmp_path)
    for told in (["VmLib:\t100 kB"] * 20, ["VmLib:\t900 kB"] * 20, ["VmRSS:\t1 kB"] * 10):
        for line in told:
            (tmp_path / "proc/7/status").write_text(f"Name:\ttrain\n{line}\n")
            counters.find(read(tmp_path, [7]))
            now_s[0] += 1
    assert [0, 20, 40, 45] == listed


def test_the_control_groups_of_a_process_are_looked_up_once_for_all_their_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    paths_of = cgroups.paths_of

    def counted(root: Path, pid: int) -> dict[str, PurePosixPath]:
        asked.append(pid)
        return paths_of(root, pid)

    monkeypatch.setattr(cgroups, "paths_of", counted)
    group = tmp_path / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    files = {
        "cpu.stat": "throttled_usec 2000000\nnr_periods 9\nnr_throttled 4",
        "memory.max": "1000000",
        "memory.stat": "workingset_refault_file 2\nworkingset_refault_anon 3",
        **{f"{on}.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=7000000" for on in ("cpu", "memory", "io")},
    }
    for name, text in files.items():
        (group / name).write_text(text + "\n")
    (group.parent / "cpu.stat").touch()
    for pid in ("7", "self"):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / f"proc/{pid}/mountinfo").write_text("31 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")
    (tmp_path / "proc/7/cgroup").write_text("0::/job\n")
    found = read(tmp_path, [7])
    page = os.sysconf("SC_PAGE_SIZE")
    assert (2 * page, 3 * page) == (found.reread_bytes, found.swapped_in_bytes)
    assert {"cpu": 7.0, "memory": 7.0, "io": 7.0} == pytest.approx(found.waiting_s)
    assert [2.0] == [each.held_back_s for each in (found.throttling or {}).values()]
    assert [7] == asked
