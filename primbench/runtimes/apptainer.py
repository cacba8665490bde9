"""Apptainer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from primbench.runtimes.hostroot import OF_CONTAINERS, caches, make_skeleton, read_only
from primbench.runtimes.launch import Launch, answer, options, variables, version
from primbench.spec.arm import Arm
from primbench.system.files import format_cpu_list

SETTINGS = frozenset(
    {"image", "cpus", "cpuset", "mems", "memory_bytes", "seccomp", "cap_add", "cap_drop", "network", "ipc", "variables"}
)


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer(["apptainer", "--version"])
    return reason, version(line)


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Launch:
    """Its variables go by way of its own, since options would split values at commas."""
    image, rest = str(arm.image), confinement(arm)
    if arm.on_host_root:
        image = str(make_skeleton(folder))
        rest += [f"--bind={bound}:{bound}:ro" for bound in read_only(arm, OF_CONTAINERS)]
        rest += [f"--bind={caches(folder)}"]
    elif gpus:
        rest += ["--nv"]
    inside = {f"APPTAINERENV_{name}": value for name, value in variables(arm, folder).items()}
    return Launch(
        worker=["apptainer", "--silent", "exec", "--cleanenv", "--no-home", "--pwd=/", *rest, image, *command],
        environment=dict(os.environ) | inside,
    )


def confinement(arm: Arm) -> list[str]:
    """The options that limit and confine. It has no system call filter of its own, so that only a file adds one."""
    filtered = arm.seccomp not in (None, "default", "unconfined")
    network = {"private": ["--net"], "none": ["--net", "--network=none"]}
    return [
        *options(
            [
                ("--cpus", None if arm.cpus is None else f"{arm.cpus:.12g}"),
                ("--cpuset-cpus", None if arm.cpuset is None else format_cpu_list(arm.cpuset)),
                ("--cpuset-mems", None if arm.mems is None else format_cpu_list(arm.mems)),
                ("--memory", arm.memory_bytes),
                ("--security", f"seccomp:{arm.seccomp}" if filtered else None),
                ("--add-caps", ",".join(f"CAP_{name}" for name in arm.cap_add) or None),
                ("--drop-caps", ",".join(f"CAP_{name}" for name in arm.cap_drop) or None),
            ]
        ),
        *network.get(str(arm.network), []),
        *(["--ipc"] if arm.ipc == "private" else []),
    ]
