from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.environment.limits import Limits
from primbench.environment.reading import group_of
from primbench.system.prctl import GET_TIMERSLACK, prctl

Look = Callable[..., Environment]
CGROUPS = {
    "cpu_quota", "cpu_period_s", "cpu_weight", "memory_limit_bytes", "periods", "throttled_periods", "throttled_s",
    "out_of_memory_kills", "processes_max", "processes_free", "processes_refused", "io_limits", "reread_bytes",
    "cpu_group_depth",
}  # fmt: skip
SOFT = {
    "memlock_bytes": "MEMLOCK", "open_files": "NOFILE", "processes_own_max": "NPROC", "stack_bytes": "STACK",
    "address_space_bytes": "AS", "file_size_bytes": "FSIZE", "cpu_time_limit_s": "CPU",
    "data_bytes": "DATA", "core_bytes": "CORE", "message_queue_bytes": "MSGQUEUE", "signals_pending_max": "SIGPENDING",
    "nice_limit": "NICE", "realtime_priority_max": "RTPRIO", "resident_bytes": "RSS",
}  # fmt: skip


def test_every_field_is_read(look: Look, tmp_path: Path) -> None:
    found = look().limits
    shm_bytes = os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    expected = {
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "memory_nodes_allowed": [0],
        "cpu_quota": 3.0,
        "cpu_period_s": 0.05,
        "cpu_weight": 39,
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "session_niceness": 5,
        "scheduling": "other",
        "timer_slack_ns": prctl(GET_TIMERSLACK),
        "memory_limit_bytes": 8589934592,
        "cpu_group_depth": 2,
        "cgroup_version": "v2",
        "periods": 40,
        "throttled_periods": 7,
        "throttled_s": 2.5,
        "out_of_memory_kills": 2,
        "processes_max": 4096,
        "processes_free": 4000,
        "processes_refused": 2,
        "io_limits": ["8:16 rbps=2097152", "8:16 wiops=120"],
        "reread_bytes": 3 * os.sysconf("SC_PAGE_SIZE"),
        "shm_bytes": shm_bytes,
        "thread_niceness": {},
        "thread_scheduling": {},
    }
    assert expected == {name: getattr(found, name) for name in expected}
    assert 0 < (found.shm_free_bytes or 0) <= shm_bytes
    assert {} == found.missing
    assert 0 < (found.descriptors or 0)
    others = {"descriptors", "shm_free_bytes", "file_locks_max", "realtime_limit_s", "thread_cpus", "missing"}
    assert set(found.__struct_fields__) == {*expected, *SOFT, *others}


def test_the_least_weight_of_v1_is_one(look: Look, v1: dict[str, str]) -> None:
    """As that of a pod that requests no CPU, of 2 shares."""
    assert 1 == look(v1 | {"sys/fs/cgroup/cpu/job/cpu.shares": "2\n"}).limits.cpu_weight


def test_an_idle_group_has_the_least_weight(look: Look) -> None:
    """Linux shows 0 where cpu.idle is 1."""
    assert 1 == look({"sys/fs/cgroup/job/cpu.weight": "0\n"}).limits.cpu_weight


@pytest.mark.parametrize(
    ("extra", "version"), [("", "v1"), ("38 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "hybrid")]
)
def test_v1_and_hybrid(look: Look, v1: dict[str, str], extra: str, version: str) -> None:
    files = v1 | {
        "proc/self/mountinfo": v1["proc/self/mountinfo"] + extra,
        "proc/self/cgroup": v1["proc/self/cgroup"] + ("0::/\n" if extra else ""),
    }
    found = look(files).limits
    expected = {
        "cpu_quota": 0.5,
        "cpu_period_s": 0.1,
        "cpu_weight": 50,
        "memory_limit_bytes": 2**30,
        "cpu_group_depth": 1,
        "cgroup_version": version,
        "periods": 12,
        "throttled_periods": 3,
        "throttled_s": 0.25,
        "out_of_memory_kills": 4,
        "processes_max": 100,
        "processes_free": 0,
        "processes_refused": 0,
        "io_limits": ["8:0 rbps=1048576"],
        "reread_bytes": 4 * os.sysconf("SC_PAGE_SIZE"),
    }
    assert expected == {name: getattr(found, name) for name in expected}
    assert {} == found.missing


def test_no_limit_is_none_without_a_reason(look: Look) -> None:
    group = "sys/fs/cgroup/job"
    files = {"cpu.max": "max 100000", "step/cpu.weight": "100", "memory.max": "max", "pids.max": "max", "io.max": ""}
    found = look({f"{group}/{name}": text for name, text in files.items()}).limits
    nothing = ("cpu_quota", "cpu_period_s", "cpu_weight", "memory_limit_bytes", "processes_max", "processes_free")
    assert {None} == {getattr(found, name) for name in (*nothing, "reread_bytes")}
    assert [] == found.io_limits
    assert {} == found.missing


def test_group_that_can_have_no_quota_counts_nothing(look: Look) -> None:
    only_usage = {f"sys/fs/cgroup/{name}/cpu.stat": "usage_usec 9\n" for name in ("job", "job/step")}
    found = look(only_usage).limits
    assert (None, None, None) == (found.periods, found.throttled_periods, found.throttled_s)
    assert {} == found.missing


def test_limits_of_a_hidden_group_are_unknown_not_absent(look: Look) -> None:
    found = look({"proc/self/cgroup": "0::/elsewhere\n"}).limits
    assert CGROUPS == set(found.missing)


def test_groups_above_a_namespace_of_its_own_are_not_counted(place: Callable[..., Path]) -> None:
    root = place()
    (root / "proc/self/ns/cgroup").unlink()
    (root / "proc/self/ns/cgroup").symlink_to("cgroup:[4026533003]")
    found = group_of(Limits, root)
    assert (None, True) == (found.cpu_group_depth, "hides" in found.missing["cpu_group_depth"])


def test_of_a_process_that_is_gone_nothing_is_known_but_what_system_calls_tell(tmp_path: Path) -> None:
    found = group_of(Limits, tmp_path, os.getpid())
    assert f"{tmp_path}/proc/{os.getpid()}/limits has no Max open files" == found.missing["open_files"]


def test_no_groups_at_all_are_unknown(look: Look) -> None:
    found = look({"proc/self/mountinfo": "20 1 254:0 / / rw - ext4 /dev/vda rw\n"}).limits
    assert {*CGROUPS, "cgroup_version"} == set(found.missing)


def test_resource_limits_are_the_soft_ones(look: Look) -> None:
    found = look().limits
    for field, kind in {field: getattr(resource, f"RLIMIT_{name}") for field, name in SOFT.items()}.items():
        soft = resource.getrlimit(kind)[0]
        assert (None if soft == resource.RLIM_INFINITY else soft) == getattr(found, field)


@pytest.mark.parametrize("name", ["container-cpuset-hybrid", "container-cpuset-v1", "container-cpuset-v2"])
def test_containers_recorded_elsewhere(tree: Callable[[str], Path], name: str) -> None:
    found = fingerprint.collect(gpus=False, root=tree(name)).limits
    assert name.rpartition("-")[2] == found.cgroup_version
    assert found.memory_nodes_allowed
