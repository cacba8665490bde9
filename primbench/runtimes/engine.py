"""What Docker and Podman have in common: the options of a container, and its life in three commands.

The container is made before it is started, so that one which is cut off on the way is always there to be removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from primbench.runtimes.hostroot import OF_CONTAINERS, caches, read_only
from primbench.runtimes.launch import env_options, gpu_files, options, variables
from primbench.spec.arm import Arm
from primbench.system.files import format_cpu_list

SETTINGS = frozenset(
    {
        "image", "cpus", "cpuset", "mems", "memory_bytes", "shm_bytes", "seccomp", "cap_add", "cap_drop", "network",
        "ipc", "variables",
    }
)  # fmt: skip


def new_name() -> str:
    return f"primbench-{secrets.token_hex(6)}"


def container(arm: Arm, folder: Path, *, private_network: str) -> list[str]:
    """The options that limit and confine a container."""
    return [
        *options(
            [
                ("--cpus", None if arm.cpus is None else f"{arm.cpus:.12g}"),
                ("--cpuset-cpus", None if arm.cpuset is None else format_cpu_list(arm.cpuset)),
                ("--cpuset-mems", None if arm.mems is None else format_cpu_list(arm.mems)),
                ("--memory", None if arm.memory_bytes is None else f"{arm.memory_bytes}b"),
                ("--shm-size", None if arm.shm_bytes is None else f"{arm.shm_bytes}b"),
                ("--security-opt", None if arm.seccomp in (None, "default") else f"seccomp={arm.seccomp}"),
                *(("--cap-add", name) for name in arm.cap_add),
                *(("--cap-drop", name) for name in arm.cap_drop),
                ("--network", private_network if arm.network == "private" else arm.network),
                ("--ipc", arm.ipc),
            ]
        ),
        *env_options(arm, variables(arm, folder)),
    ]


def binds(arm: Arm, folder: Path) -> list[str]:
    """Those of the host's root.

    The folder is new, and an engine that sees other files than these has none of that name: as a mount, unlike a
    volume, it must be there.
    """
    own = caches(folder)
    mount = f"--mount=type=bind,source={own},target={own}"
    return [mount, *(f"--volume={bound}:{bound}:ro" for bound in read_only(arm, OF_CONTAINERS))]


def devices() -> list[str]:
    """The driver's files one by one; its libraries are there, where the root is the host's."""
    return [f"--device={path}" for path in gpu_files()]


def create(client: str, name: str, rest: Sequence[str], image: Sequence[str], command: Sequence[str]) -> list[str]:
    """image: as the client takes it, with the options that only a kind of image has.

    Its entry point would print to the stream that results travel on.
    """
    program, *arguments = command
    made = [client, "create", "--interactive", "--rm", "--pull=never", f"--name={name}", *rest]
    return [*made, f"--entrypoint={program}", *image, *arguments]


def start(client: str, name: str) -> list[str]:
    return [client, "start", "--attach", "--interactive", name]


def remove(client: str, name: str) -> list[str]:
    return [client, "rm", "--force", "--volumes", name]
