"""What a process gives itself before it becomes the worker: real workers of this machine, and what they found of it."""

from __future__ import annotations

import os
import resource
from functools import reduce
from typing import Any

import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.invocation import variables
from primbench.runtimes.table import check
from primbench.spec.arm import arm_of, format_arm, parse_arm
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Ready, Start

CPU = min(os.sched_getaffinity(0))
GIB = 2**30
HARD = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in ("NICE", "RTPRIO")}
NICE, PRIORITY = (3 if hard == resource.RLIM_INFINITY else min(3, hard) for hard in HARD.values())
"""As far as they may be raised without more rights."""
HELD = {
    "policy=batch": ("limits.scheduling", "batch"),
    f"affinity={CPU}": ("limits.cpus_allowed", [CPU]),
    "umask=077": ("confinement.umask", "0077"),
    "timer-slack=1ms": ("limits.timer_slack_ns", 1_000_000),
    "thp=no": ("confinement.transparent_hugepage_disabled", True),
    "nofile=5000": ("limits.open_files", 5000),
    "rlimit-core=0B": ("limits.core_bytes", 0),
    "rlimit-cpu=3000": ("limits.cpu_time_limit_s", 3000),
    "rlimit-fsize=1GiB": ("limits.file_size_bytes", GIB),
    "rlimit-memlock=65536B": ("limits.memlock_bytes", 65536),
    "rlimit-msgqueue=1000B": ("limits.message_queue_bytes", 1000),
    f"rlimit-nice={NICE}": ("limits.nice_limit", NICE),
    "rlimit-nproc=5000": ("limits.processes_own_max", 5000),
    f"rlimit-rtprio={PRIORITY}": ("limits.realtime_priority_max", PRIORITY),
    "rlimit-sigpending=700": ("limits.signals_pending_max", 700),
    "rlimit-stack=4MiB": ("limits.stack_bytes", 4 * 2**20),
    "rlimit-data=30GiB": ("limits.data_bytes", 30 * GIB),
    "rlimit-as=60GiB": ("limits.address_space_bytes", 60 * GIB),
}


def ready(words: str) -> Ready:
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm(words))
    try:
        return worker.ready
    finally:
        worker.end()


def fact(found: Ready, path: str) -> Any:
    return reduce(getattr, path.split("."), found.environment)


@pytest.fixture(scope="module")
def held() -> Ready:
    return ready(f"host:{','.join(HELD)},name=held")


@pytest.mark.parametrize("words", HELD)
def test_a_worker_of_the_host_has_what_was_asked_for(words: str, held: Ready) -> None:
    path, expected = HELD[words]
    assert expected == fact(held, path)


def test_no_page_of_a_worker_becomes_executable() -> None:
    found = ready("host:mdwe=yes")
    assert "EACCES" == found.environment.confinement.executable_pages


def test_a_limit_is_taken_away_where_it_may_be() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != resource.RLIM_INFINITY and os.geteuid():
        pytest.skip("needs a hard limit that may be raised, or root")
    found = ready("host:rlimit-core=unlimited").environment.limits
    assert (None, False) == (found.core_bytes, "core_bytes" in found.missing)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("host:affinity=4000", "affinity=4000: the kernel grants CPUs "),
        ("host:affinity=0-4000", "affinity=0-4000: the kernel grants CPUs "),
    ],
)
def test_what_the_kernel_refuses_is_an_error_of_the_arm(words: str, said: str) -> None:
    with pytest.raises(BackendUnavailable) as refusal:
        ready(words)
    assert f"arm {words}: {said}" in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("docker:umask=077", "docker has no umask of its own; there is one in host, podman, apptainer"),
        ("podman:policy=idle", "podman has no policy of its own; there is one in host, apptainer, charliecloud"),
        ("podman:rlimit-as=1GiB", "podman has no rlimit-as of its own; there is one in host, apptainer"),
    ],
)
def test_who_has_no_way_to_set_it_says_who_has(words: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check(parse_arm(words))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("host:umask=99", "umask=99: permissions that new files do not get, in octal"),
        ("host:timer-slack=5s", "timer-slack=5s: from 1ns to 4s"),
        ("host:mdwe=no", "mdwe=no: there are yes"),
        ("host:policy=deadline", "there are other, batch, idle, fifo, rr"),
        ("host:affinity=", "affinity: at least one number"),
        ("host:rlimit-data=many", "as in 4KiB, or unlimited"),
        ("host:unset=A-B", "unset=A-B: a variable's name"),
        ("host:unset=A,env.A=1", "unset with env.A: one of them"),
        ("host:first.HOME=/x", "first.HOME: of variables that are lists: PATH, LD_LIBRARY_PATH"),
        ("host:first.PATH=", "first.PATH=: at least one entry, such as first.PATH=/opt/bin"),
        ("host:last.PATH=/x,env.PATH=/y", "last.PATH with env.PATH: one of them"),
        ("host:without.PATH=/x,unset=PATH", "without.PATH with unset=PATH: one of them"),
        ("host:unset=OMP_NUM_THREADS,threads=2", "unset=OMP_NUM_THREADS with threads=2, which sets it"),
        ("podman:image=x,first.PATH=/x", "first is of this machine's files: leave out image=x"),
    ],
)
def test_what_means_nothing_is_refused(words: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_arm(words)
    assert said in str(refusal.value)


def test_a_variable_that_is_set_here_is_not_set_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_SCHEDULE", "static")
    assert "static" == (ready("host").environment.software.variables or {})["OMP_SCHEDULE"]
    found = ready("host:unset=OMP_SCHEDULE+OMP_PLACES").environment.software.variables
    assert found is not None
    assert "OMP_SCHEDULE" not in found


def test_entries_of_a_list_come_first_and_last_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/a:/b:/c")
    words = "host:first.LD_LIBRARY_PATH=/x:/y,last.LD_LIBRARY_PATH=/z,without.LD_LIBRARY_PATH=/b"
    found = ready(words).environment.software.variables
    assert found is not None
    assert "/x:/y:/a:/c:/z" == found["LD_LIBRARY_PATH"]


@pytest.mark.parametrize("runtime", ["host", "docker", "podman", "runc", "charliecloud"])
def test_variables_are_taken_away_in_every_runtime(runtime: str, tmp_path: Any) -> None:
    here = {"PATH": "/bin:/sbin", "OMP_NUM_THREADS": "2", "HOME": "/home/me"}
    arm = parse_arm(f"{runtime}:first.PATH=/opt/bin,without.PATH=/sbin,without.LD_PRELOAD=/x.so,unset=OMP_NUM_THREADS")
    found = variables(arm, tmp_path, here)
    assert ("/opt/bin:/bin", False, False) == (found["PATH"], "OMP_NUM_THREADS" in found, "LD_PRELOAD" in found)


def test_a_table_says_the_same_as_words() -> None:
    table = {
        "runtime": "host", "unset": ["A", "B"], "first": {"PATH": "/x:/y"}, "without": {"LD_PRELOAD": "/z.so"},
        "rlimit-core": "unlimited", "timer-slack": "50us",
    }  # fmt: skip
    words = "host:timer-slack=50us,rlimit-core=unlimited,unset=A+B,first.PATH=/x:/y,without.LD_PRELOAD=/z.so"
    assert parse_arm(words) == arm_of({**table, "name": parse_arm(words).name})
    assert parse_arm(words) == parse_arm(format_arm(parse_arm(words)))
