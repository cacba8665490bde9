"""Settings that a runtime left out, found in what a real worker of this machine read back, changed where it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.spec.arm import parse_arm
from primbench.spec.placement import Placement
from primbench.workers.applied import Outside, mismatch
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Ready, Start

MIB = 2**20
NAMESPACES = {"net": "net:[1]", "ipc": "ipc:[1]"}
USER = Outside(is_root=False, namespaces=NAMESPACES, seccomp_filters=1, cgroup_version="v1")
LIMITED = {
    "cpu_quota": 0.5, "memory_limit_bytes": 512 * MIB, "memory_nodes_allowed": [1], "shm_bytes": 256 * MIB,
    "missing": {},
}  # fmt: skip
CONFINED = {
    "seccomp": "filter", "seccomp_filters": 2, "no_new_privileges": True,
    "capabilities": ["CAP_CHOWN", "CAP_SYS_NICE"], "namespaces": {"net": "net:[2]", "ipc": "ipc:[1]"}, "missing": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Ready:
    worker = WorkerProcess(Start(backend="numpy", device="cpu"))
    ready = worker.ready
    worker.end()
    return ready


@pytest.fixture
def read_back(found: Ready) -> Callable[..., Ready]:
    """What that worker found, but for what is given. cpus: those it may run on."""

    def ready(cpus: tuple[int, ...] = (1,), variables: dict[str, str] | None = None, **changes: Any) -> Ready:
        here = found.environment
        environment = replace(
            here,
            limits=replace(here.limits, **LIMITED | {name: changes[name] for name in changes.keys() & LIMITED.keys()}),
            confinement=replace(
                here.confinement, **CONFINED | {name: changes[name] for name in changes.keys() & CONFINED.keys()}
            ),
            software=replace(here.software, variables=variables or {}),
        )
        return replace(found, environment=environment, placement=replace(found.placement, cpus=list(cpus)))

    return ready


@pytest.mark.parametrize(
    "asked",
    [
        "podman:cpus=0.5,cpuset=1,mems=1,memory=512MiB,shm=256MiB",
        "podman:seccomp=/a/profile.json,cap-add=SYS_NICE,cap-drop=MKNOD,network=none,ipc=host",
        "podman:cap-drop=ALL,cap-add=SYS_NICE+CHOWN",
        "runc:no-new-privileges=yes,seccomp=docker,cgroup=private,root=overlay",
        "podman:image=primbench,env.OMP_NUM_THREADS=2,env.CUDA_CACHE_PATH=/cache,env.MINE=not read back",
        "podman:env.OMP_NUM_THREADS=7,threads=2",
        "docker:cpuset=0-3,bind-cpus=1",
        "docker:seccomp=default",
        "podman:memory=536870000B",
    ],
)
def test_what_is_as_asked_is_no_mismatch(asked: str, read_back: Callable[..., Ready]) -> None:
    arm, variables = parse_arm(asked), {"OMP_NUM_THREADS": "2", "CUDA_CACHE_PATH": "/cache"}
    assert mismatch(arm, arm.placement, read_back(variables=variables), USER) is None


def test_a_placement_of_all_arms_narrows_what_an_arm_asks_for(read_back: Callable[..., Ready]) -> None:
    arm, variables = parse_arm("docker:cpuset=0-3,env.OMP_NUM_THREADS=7"), {"OMP_NUM_THREADS": "2"}
    assert mismatch(arm, Placement(cpus=(1,), threads=2), read_back(variables=variables), USER) is None


V1 = "without root podman sets no limits on control groups v1: start it as root, or boot Linux with v2 alone"


@pytest.mark.parametrize(
    ("asked", "changes", "told"),
    [
        ("podman:cpuset=0", {"cpus": (0, 1)}, f"cpuset=0: the worker found CPUs 0-1: {V1}"),
        ("podman:cpus=0.5", {"cpu_quota": None}, f"cpus=0.5: the worker found no quota: {V1}"),
        ("podman:memory=1GiB", {"memory_limit_bytes": None}, f"memory=1GiB: the worker found no limit: {V1}"),
        ("podman:mems=0", {}, f"mems=0: the worker found memory nodes 1: {V1}"),
        ("host:cpus=2", {}, "cpus=2: the worker found a quota of 0.5 CPUs: a group above it may grant less"),
        ("host:cpuset=0-1", {}, "cpuset=0-1: the worker found CPUs 1: a group above it may grant less"),
        ("docker:cpuset=0,bind-cpus=1", {}, "cpuset=0: the worker found CPUs 1: "),
        ("docker:shm=1GiB", {}, "shm=1GiB: the worker found 256 MiB: "),
        ("docker:seccomp=unconfined", {}, "seccomp=unconfined: the worker found a filter: "),
        ("docker:seccomp=/p.json", {"seccomp_filters": 1}, "seccomp=/p.json: the worker found no filter of it: "),
        ("docker:cap-add=SYS_PTRACE", {}, "cap-add=SYS_PTRACE: the worker found no SYS_PTRACE: an image that runs as "),
        ("docker:cap-add=ALL", {"capabilities": []}, "cap-add=ALL: the worker found no ALL: "),
        ("docker:cap-drop=ALL,cap-add=CHOWN", {}, "cap-drop=ALL: the worker found SYS_NICE left: "),
        ("docker:network=host", {}, "network=host: the worker found a net namespace that is not the one here: "),
        ("docker:ipc=private", {}, "ipc=private: the worker found this machine's ipc namespace: "),
        ("runc:no-new-privileges=no", {}, "no-new-privileges=no: the worker found yes: what started primbench may "),
        (
            "docker:env.OMP_NUM_THREADS=2",
            {"variables": {"OMP_NUM_THREADS": "1"}},
            "env.OMP_NUM_THREADS=2: the worker found OMP_NUM_THREADS=1: docker or image host sets it otherwise",
        ),
        ("docker:env.OMP_NUM_THREADS=2", {}, "env.OMP_NUM_THREADS=2: the worker found no OMP_NUM_THREADS: "),
        (
            "host:unset=OMP_NUM_THREADS",
            {"variables": {"OMP_NUM_THREADS": "1"}},
            "unset=OMP_NUM_THREADS: the worker found OMP_NUM_THREADS=1: host or a number of threads that is asked for",
        ),
    ],
)
def test_what_is_not_as_asked_is_named_with_what_was_found_and_the_way_out(
    asked: str, changes: dict[str, Any], told: str, read_back: Callable[..., Ready]
) -> None:
    arm = parse_arm(asked)
    said = mismatch(arm, arm.placement, read_back(**changes), USER)
    assert (said or "").startswith(told)


@pytest.mark.parametrize("field", ["cpu_quota", "memory_limit_bytes", "memory_nodes_allowed", "shm_bytes"])
def test_what_cannot_be_read_back_is_no_mismatch(field: str, read_back: Callable[..., Ready]) -> None:
    unknown = read_back(**{field: None, "missing": {field: "not mounted here"}})
    limited = parse_arm("podman:cpus=0.5,cpuset=1,mems=1,memory=512MiB,shm=256MiB")
    assert mismatch(limited, Placement(), unknown, USER) is None
    blind = read_back(seccomp=None, seccomp_filters=None, capabilities=None, namespaces=None, no_new_privileges=None)
    asked = parse_arm("runc:seccomp=unconfined,cap-add=SYS_ADMIN,network=host,ipc=host,no-new-privileges=no")
    nothing_known = Outside(is_root=False, namespaces=None, seccomp_filters=None, cgroup_version=None)
    assert mismatch(asked, Placement(), blind, nothing_known) is None
