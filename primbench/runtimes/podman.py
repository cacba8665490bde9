"""Podman."""

from __future__ import annotations

import resource
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.runtimes import engine
from primbench.runtimes.hostroot import make_skeleton
from primbench.runtimes.invocation import Invocation, client, options
from primbench.runtimes.runtime import Parts, RefusalWords, Runtime, Signs, no_image
from primbench.system.files import read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.arm import Arm


USUAL_FILES = 2**20  # that it asks for


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """GPUs that no specification describes are given file by file: what ``--gpus`` asks for, Podman 4 ignores."""
    name = engine.new_name()
    rest = engine.container("podman", arm, folder, gpus=gpus, undescribed_gpus=engine.devices())
    rest += _usual_limits(rest)
    image = ["--rootfs", str(make_skeleton(folder))] if arm.on_host_root else [str(arm.image)]
    return Invocation(
        before=[engine.create(["podman", *options(arm, "podman itself")], name, rest, image, command)],
        worker=engine.start("podman", name),
        after=[[*engine.remove("podman", name), "--time=0"]],  # it would wait for a worker that heeds no SIGTERM
    )


def _usual_limits(chosen: Sequence[str]) -> list[str]:
    """Limits of processes and files that may be had: with any --ulimit Podman leaves out those that it is configured
    with, asks for more than is granted here, and has lowered its own to the largest number of a process.
    """
    given = [option.removeprefix("--ulimit=").partition("=")[0] for option in chosen if option.startswith("--ulimit=")]
    most = {
        "nproc": (resource.RLIMIT_NPROC, read_number(Path("/proc/sys/kernel/pid_max"))),
        "nofile": (resource.RLIMIT_NOFILE, USUAL_FILES),
    }
    return [f"--ulimit={name}={_granted(*of)}" for name, of in most.items() if given and name not in given]


def _granted(kind: int, usual: int) -> str:
    granted = resource.getrlimit(kind)[1]
    limit = usual if granted == resource.RLIM_INFINITY else min(granted, usual)
    return f"{limit}:{limit}"


RUNTIME = Runtime(
    rank=20,
    mechanisms=engine.MECHANISMS | {"podman", "podman itself"},
    found=partial(client, "podman", "version", "--format", "{{.Client.Version}}"),
    launch=launch,
    signs=Signs(
        is_value=True,
        group=r"/libpod-[0-9a-f]{64}",
        source=r"/(overlay|vfs|btrfs|zfs)-containers/[0-9a-f]{64}/userdata/",
        marker="run/.containerenv",
        in_pod="cri-o",  # which keeps a pod's containers where Podman keeps its own
    ),
    refusals=(
        no_image(engine.NO_IMAGE, "`podman images` lists those that are here, `podman pull` fetches one"),
        engine.hybrid(', by runtime = "runc" below [engine] in containers.conf'),
        engine.OTHER_FILES,
        engine.too_few_files('below [containers] in containers.conf, set default_ulimits = ["nofile={0}:{0}"]'),
        engine.NO_NETWORK,
        RefusalWords(
            r"OCI runtime \S+ not found|invalid argument: .*runtime",
            lambda arm: "containers.conf names the program of each below [engine.runtimes]",
        ),
    ),
    gpus=engine.TOOLKIT,
    builder=engine.builder("podman"),
    parts=Parts(("crun", "runc"), shared_memory_bytes=65_536_000),
    is_engine=True,
)
