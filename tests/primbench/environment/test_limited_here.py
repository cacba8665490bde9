"""`primbench env` under real limits of this machine: what was set is what is read."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from primbench.environment.fingerprint import Environment
from primbench.system.cgroups import cgroup_folders

ENV = [sys.executable, "-P", "-m", "primbench", "env", "--json", "-"]
SECCOMP = Path(__file__).parents[2] / "seccomp.py"
PR_SET_THP_DISABLE = 41
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes mounts, namespaces or control groups")
needs_unshare = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is missing: install util-linux")


def seen(prefix: Sequence[str] = (), first: Callable[[], object] | None = None, cwd: Path = Path("/")) -> Environment:
    """What the command sees, started behind ``prefix``. first: called in the child before it."""
    done = subprocess.run([*prefix, *ENV], capture_output=True, check=True, cwd=cwd, preexec_fn=first)
    return msgspec.json.decode(done.stdout, type=Environment)


def test_resource_limits() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (123, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        resource.setrlimit(resource.RLIMIT_CPU, (3000, resource.getrlimit(resource.RLIMIT_CPU)[1]))

    found = seen(first=limit).limits
    assert (65536, 123, 3000) == (found.memlock_bytes, found.open_files, found.cpu_time_limit_s)


def test_affinity() -> None:
    one = {max(os.sched_getaffinity(0))}
    assert sorted(one) == seen(first=lambda: os.sched_setaffinity(0, one)).limits.cpus_allowed


def test_huge_pages_off_for_the_process() -> None:
    prctl = ctypes.CDLL(None).prctl
    on, off = seen(), seen(first=lambda: prctl(PR_SET_THP_DISABLE, *map(ctypes.c_ulong, (1, 0, 0, 0))))
    disabled = [found.confinement.transparent_hugepage_disabled for found in (on, off)]
    assert [False, True] == disabled or disabled[1]  # whoever started the tests may have switched them off


def test_filter_that_denies_memory_policies() -> None:
    denying = [sys.executable, "-P", str(SECCOMP), "--deny", "set_mempolicy,mbind", "--"]
    before, found = seen().confinement, seen(denying, cwd=SECCOMP.parents[1]).confinement
    assert ("EPERM", "EPERM", before.move_pages) == (found.set_mempolicy, found.mbind, found.move_pages)
    assert ("filter", True) == (found.seccomp, found.no_new_privileges)
    assert (before.seccomp_filters or 0) + 1 == found.seccomp_filters


@needs_root
@needs_unshare
def test_namespaces_of_its_own() -> None:
    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("ipc", "net", "uts", "mnt")}
    found = seen(["unshare", "--ipc", "--uts"]).confinement.namespaces or {}
    assert {kind for kind, link in own.items() if found[kind] != link} == {"ipc", "uts"}


@needs_root
@needs_unshare
def test_small_shared_memory() -> None:
    mounting = (
        "import os, subprocess, sys;"
        "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', '/dev/shm'], check=True);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    found = seen(["unshare", "--mount", sys.executable, "-c", mounting]).limits
    assert (2 * 2**20, 2 * 2**20) == (found.shm_bytes, found.shm_free_bytes)


@needs_root
def test_control_groups(group: Callable[[str, dict[str, str]], Path]) -> None:
    if not (cgroup_folders("cpu")[0] / "tasks").exists():
        pytest.skip("needs control groups of v1: those of v2 must be delegated to root here")
    folders = [
        group("cpu", {"cpu.cfs_period_us": "50000", "cpu.cfs_quota_us": "75000"}),
        group("memory", {"memory.limit_in_bytes": str(2**30)}),
        group("pids", {"pids.max": "321"}),
    ]
    found = seen(first=lambda: [(folder / "tasks").write_text(f"{os.getpid()}") for folder in folders]).limits
    assert (1.5, 0.05, 2**30, 321) == (
        found.cpu_quota,
        found.cpu_period_s,
        found.memory_limit_bytes,
        found.processes_max,
    )
    assert (found.throttled_s or 0) >= 0
    assert found.periods
