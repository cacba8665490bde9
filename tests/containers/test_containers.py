"""What primbench says of real containers, and of the machine beside them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

OCI = ["docker", "podman"]
MIB = 2**20
CPU = max(os.sched_getaffinity(0))
LIMITED = ("--cpus=0.5", f"--cpuset-cpus={CPU}", "--cpuset-mems=0", "--memory=512m")


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


@pytest.mark.parametrize("engine", [*OCI, "apptainer", "charliecloud"], indirect=True)
def test_the_launchers_word_is_borne_out_by_the_mount_namespace(engine: Any) -> None:
    links = ",".join(os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "pid"))
    launched = {"PRIMBENCH_RUNTIME": engine.name, "PRIMBENCH_HOST_NAMESPACES": links}
    found = environment(engine, **launched)["confinement"]["runtime"]
    assert (engine.name, True) == (found["name"], found["in_container"])
    expected = [
        "/proc/self/ns/mnt: not that of the launcher (PRIMBENCH_HOST_NAMESPACES)",
        f"PRIMBENCH_RUNTIME={engine.name}",
    ]
    assert expected == found["evidence"][:2]


@pytest.mark.parametrize("engine", OCI, indirect=True)
def test_limits_of_a_container_are_read(engine: Any) -> None:
    limits = environment(engine, options=(*LIMITED, "--shm-size=256m"))["limits"]
    expected = {
        "cpus_allowed": [CPU],
        "memory_nodes_allowed": [0],
        "cpu_quota": 0.5,
        "cpu_period_s": 0.1,
        "memory_limit_bytes": 512 * MIB,
        "shm_bytes": 256 * MIB,
    }
    assert expected == {name: limits[name] for name in expected}, limits["missing"]


def test_limits_that_apptainer_hides_are_unknown_and_not_absent(apptainer: Any) -> None:
    limits = environment(apptainer, options=LIMITED)["limits"]
    assert ([CPU], [0]) == (limits["cpus_allowed"], limits["memory_nodes_allowed"])
    for name in ("cpu_quota", "memory_limit_bytes"):
        assert limits[name] is None
        assert limits["missing"][name]


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
    ("engine", "options", "memory_policy", "seccomp"),
    [
        ("docker", (), "EPERM", "filter"),
        ("docker", ("--cap-add=SYS_NICE",), "allowed", "filter"),
        ("docker", ("--security-opt=seccomp=unconfined",), "allowed", "disabled"),
        ("podman", (), "allowed", "filter"),
        ("apptainer", (), "allowed", "disabled"),
        ("charliecloud", (), "allowed", "disabled"),
    ],
    indirect=["engine"],
)
def test_the_memory_policy_is_allowed_or_denied(
    engine: Any, options: Sequence[str], memory_policy: str, seccomp: str, by_default: Callable[[Any], Any]
) -> None:
    found = (environment(engine, options=options) if options else by_default(engine))["confinement"]
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


@pytest.mark.parametrize(
    ("engine", "rung"), [("docker", "first touch"), ("podman", "bind"), ("charliecloud", "bind")], indirect=["engine"]
)
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


@pytest.mark.parametrize("name", ["docker", "podman", "apptainer", "charliecloud"])
def test_nothing_is_left_of_a_runtime(
    name: str,
    work: Path,
    started: Callable[..., AbstractContextManager[Any]],
    left: Callable[[Path], list[str]],
) -> None:
    folder = work / "again" / name
    folder.mkdir(parents=True)
    before = left(folder)
    with started(name, folder) as engine:
        engine.python("-c", "pass")
        assert name != "docker" or before != left(folder), "its daemon names the folder, and is not seen"
    assert before == left(folder)
