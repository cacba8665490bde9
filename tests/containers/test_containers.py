"""What primbench says of real containers, and of the machine beside them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

OCI = ["docker", "podman"]
MIB = 2**20
CPU = max(os.sched_getaffinity(0))


def said(engine: Any, *command: str, options: Sequence[str] = (), **variables: str) -> Any:
    """The JSON that a command of primbench prints in a container."""
    return json.loads(engine.python("-m", "primbench", *command, "--json", "-", options=options, variables=variables))


def environment(engine: Any, options: Sequence[str] = (), **variables: str) -> Any:
    return said(engine, "env", options=options, **variables)


@pytest.fixture(scope="module")
def by_default() -> Callable[[Any], Any]:
    """``by_default(engine)``: what is seen in a container with no options, of which each runtime starts one."""
    found: dict[str, Any] = {}

    def of(engine: Any) -> Any:
        return found[engine.name] if engine.name in found else found.setdefault(engine.name, environment(engine))

    return of


@pytest.mark.parametrize("engine", ["host", *OCI, "apptainer", "charliecloud"], indirect=True)
def test_the_runtime_is_named(engine: Any, by_default: Callable[[Any], Any]) -> None:
    found = by_default(engine)["confinement"]["runtime"]
    assert (engine.name, engine.name != "host") == (found["name"], found["in_container"]), found


def test_podman_is_known_without_its_variable_and_marker_file(podman: Any, skeleton: Path) -> None:
    engine = dataclasses.replace(podman, image=(f"{skeleton}:O",))
    found = environment(engine, options=("--read-only", "--rootfs"))["confinement"]["runtime"]
    assert ("podman", True) == (found["name"], found["in_container"]), found
    assert not any("container=" in words or "exists" in words for words in found["evidence"]), found


def test_a_stale_variable_on_the_machine_names_no_container(host: Any) -> None:
    found = environment(host, CH_RUNNING="left")["confinement"]["runtime"]
    assert ("host", False) == (found["name"], found["in_container"])
    assert "left over: CH_RUNNING is set (charliecloud)" in found["evidence"]


def test_a_variable_that_contradicts_the_kernel_is_told(docker: Any) -> None:
    found = environment(docker, CH_RUNNING="left")["confinement"]["runtime"]
    assert (None, True) == (found["name"], found["in_container"])
    assert "contradictory or nested: charliecloud, docker" in found["evidence"]


ENTER = """\
import os, sys
from pathlib import Path
count = int(sys.argv[1])
for folder in sys.argv[2:2 + count]:
    Path(folder, "cgroup.procs").write_text(str(os.getpid()))
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """Control groups v1 made by hand, as for a runtime that has no limits of its own: half a CPU, 512 MiB, one CPU."""
    top = Path("/sys/fs/cgroup")
    limits = {
        "cpu/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "50000",
        "memory/memory.limit_in_bytes": str(512 * MIB),
        "cpuset/cpuset.cpus": str(CPU),
        "cpuset/cpuset.mems": "0",
    }
    if not all((top / kind / "cgroup.procs").exists() for kind in ("cpu", "memory", "cpuset")):
        pytest.skip("needs the v1 control groups cpu, memory and cpuset, root's to write to")
    # Below this process's own, which may be limited itself.
    own = {line.split(":")[1]: line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines()}
    folders = {kind: top / kind / own[kind].strip("/") / "primbench-tests" for kind in ("cpu", "memory", "cpuset")}
    try:
        for folder in folders.values():
            folder.mkdir()
        for name, value in limits.items():
            kind, file = name.split("/")
            (folders[kind] / file).write_text(value)
        yield list(folders.values())
    finally:
        for folder in folders.values():
            folder.rmdir()


def test_limits_around_charliecloud_are_read(charliecloud: Any, groups: list[Path]) -> None:
    enter = (sys.executable, "-P", "-c", ENTER, str(len(groups)), *map(str, groups))
    limits = environment(dataclasses.replace(charliecloud, start=(*enter, *charliecloud.start)))["limits"]
    expected = {"cpus_allowed": [CPU], "cpu_quota": 0.5, "cpu_period_s": 0.1, "memory_limit_bytes": 512 * MIB}
    assert expected == {name: limits[name] for name in expected}, limits["missing"]


@pytest.mark.parametrize(("engine", "shm_bytes"), [("docker", 67108864), ("podman", 65536000)], indirect=["engine"])
def test_shared_memory_is_what_the_runtime_gives_by_default(
    engine: Any, shm_bytes: int, by_default: Callable[[Any], Any]
) -> None:
    assert shm_bytes == by_default(engine)["limits"]["shm_bytes"]


@pytest.mark.parametrize(
    ("engine", "memory_policy", "seccomp"),
    [
        ("docker", "EPERM", "filter"),
        ("podman", "allowed", "filter"),
        ("apptainer", "allowed", "disabled"),
        ("charliecloud", "allowed", "disabled"),
    ],
    indirect=["engine"],
)
def test_the_memory_policy_is_allowed_or_denied(
    engine: Any, memory_policy: str, seccomp: str, by_default: Callable[[Any], Any]
) -> None:
    found = by_default(engine)["confinement"]
    assert memory_policy == found["set_mempolicy"] == found["mbind"], found["missing"]
    assert seccomp == found["seccomp"]


COPY = (
    "memcpy",
    "--numa-node",
    "0",
    "--bytes",
    "1MiB",
    "--backend",
    "numpy",
    "--max-time",
    "50ms",
    "--min-time",
    "10ms",
)


@pytest.mark.parametrize(("engine", "rung"), [("docker", "first touch"), ("podman", "bind")], indirect=["engine"])
def test_a_copy_on_a_node_is_on_that_node_whatever_the_container_denies(engine: Any, rung: str) -> None:
    found = said(engine, *COPY)
    (worker,), (record,) = found["workers"], found["records"]
    assert rung == worker["placement"]["rung"]
    assert (rung == "first touch") == ("EPERM" in worker["placement"]["reasons"].get("set_mempolicy", ""))
    assert "ok" == record["status"], record
    pages = record["measurement"]["pages"]
    assert (["0"], [0], False) == (list(pages["by_node"]), pages["asked"], pages["misplaced"])


def test_the_doctor_quotes_what_docker_denies_and_how_small_its_shared_memory_is(docker: Any) -> None:
    found = docker.run(sys.executable, "-P", "-m", "primbench", "doctor", "--json", "-")
    assert found.returncode in (0, 1), found.stderr  # 1 is a problem found
    findings = {finding["check"]: finding for finding in json.loads(found.stdout)["findings"]}
    assert "set_mempolicy: EPERM" in findings["memory-policy"]["evidence"]
    assert "--cap-add SYS_NICE" in findings["memory-policy"]["advice"]
    assert "64 MiB" in findings["shared-memory"]["summary"]
