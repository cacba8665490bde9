"""What Docker and Podman have in common: options of a container, its life in three commands, refusals, images.

The container is made before it is started, so that one which is cut off on the way is always there to be removed.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from primbench.runtimes.hostroot import OF_CONTAINERS, caches, read_only
from primbench.runtimes.images.builder import Builder, ImageRequest, arguments
from primbench.runtimes.invocation import CACHES, answer, cdi_names_gpus, env_options, gpu_files, options, variables
from primbench.runtimes.mounts import binds
from primbench.runtimes.runtime import RefusalWords

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

MECHANISMS = frozenset({"image", "surroundings", "overlays", "binds", "files"})
"""Beside the client's own options."""

NEEDS_RUNC = "crun refuses a machine whose control groups are v1 and v2 at once: use runc"
"""What to do where crun ends with words about a hybrid."""

NO_IMAGE = r"No such image|image not known|invalid reference format"
TOOLKIT = (
    "install the NVIDIA container toolkit, and have it describe the GPUs to containers: "
    "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
)


def new_name() -> str:
    return f"primbench-{os.urandom(6).hex()}"


def container(client: str, arm: Arm, folder: Path, *, gpus: bool, undescribed_gpus: Sequence[str]) -> list[str]:
    """The options that limit and confine a container, and give it files and GPUs of the machine.

    undescribed_gpus: those for the GPUs of an image where no specification of the machine describes them.
    """
    return [
        *options(arm, client),
        *env_options(arm, variables(arm, folder)),
        *_of_machine(arm, folder, gpus=gpus, undescribed_gpus=undescribed_gpus),
        *(
            f"--mount=type=bind,source={each.source},target={each.target}{',readonly' * each.is_read_only}"
            for each in binds(arm, folder)
        ),
    ]


def _of_machine(arm: Arm, folder: Path, *, gpus: bool, undescribed_gpus: Sequence[str]) -> Sequence[str]:
    if arm.on_host_root:
        return _binds(arm, folder) + (devices() if gpus else [])
    if not gpus:
        return []
    return ["--device=nvidia.com/gpu=all"] if cdi_names_gpus() else undescribed_gpus


def _binds(arm: Arm, folder: Path) -> list[str]:
    """Options that mount the host's folders for a container on the host's root.

    The folder is new, and an engine that sees other files than these has none of that name: as a mount, unlike a
    volume, it must be there. What libraries compile into it is in memory: files that the container's root makes are not
    this user's to remove.
    """
    own = caches(folder)
    for name in CACHES:
        (own / name).mkdir(exist_ok=True)
    return [
        f"--mount=type=bind,source={own},target={own}",
        *(f"--tmpfs={own / name}:exec,mode=1777" for name in CACHES),
        *(f"--volume={bound}:{bound}:ro" for bound in read_only(arm, OF_CONTAINERS)),
    ]


def devices() -> list[str]:
    """The driver's files one by one; its libraries are there, where the root is the host's."""
    return [f"--device={path}" for path in gpu_files()]


def create(
    client: Sequence[str], name: str, rest: Sequence[str], image: Sequence[str], command: Sequence[str]
) -> list[str]:
    """client: with options of its own. image: as the client takes it, with the options that only a kind of image has.

    Its entry point would print to the stream that results travel on.
    """
    program, *arguments = command
    made = [*client, "create", "--interactive", "--rm", "--pull=never", f"--name={name}", *rest]
    return [*made, f"--entrypoint={program}", *image, *arguments]


def start(client: str, name: str) -> list[str]:
    return [client, "start", "--attach", "--interactive", name]


def remove(client: str, name: str) -> list[str]:
    return [client, "rm", "--force", "--volumes", name]


def builder(client: str) -> Builder:
    """The network is the machine's, so that the build reaches what the machine reaches."""

    def command(request: ImageRequest) -> list[str]:
        options = ["--network=host", "--file=Containerfile", f"--tag={request.tag}"]
        return [client, "build", *options, *arguments(request), "."]

    def size_bytes(name: str) -> int | str:
        reason, line = answer([client, "image", "inspect", "--format={{.Size}}", name])
        if reason is not None:
            return reason
        return int(line) if line.isdecimal() else f"{line!r} is no number of bytes"

    return Builder(command=command, name=str, size_bytes=size_bytes)


def hybrid(how: str = "") -> RefusalWords:
    """crun's refusal to start where both versions of control groups are mounted. how: to have runc used instead."""
    return RefusalWords(r"cgroups in hybrid mode not supported", lambda arm: f"{NEEDS_RUNC}{how}")


def too_few_files(raised: str) -> RefusalWords:
    """The refusal over the limit of open files. raised: advice how to set it, with {0} for the number."""

    def advice(arm: Arm) -> str:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        held = any(word.startswith("--ulimit=nofile=") for word in options(arm, arm.runtime))
        mend = f"nofile={most} or less can be had" if held else raised.format(most)
        return f"no more than {most} open files may be had here: {mend}"

    return RefusalWords(r"RLIMIT_NOFILE|rlimit type 7\b", advice)  # getrlimit(2)


def _other_files(arm: Arm) -> str | None:
    if not arm.on_host_root:
        return None
    return (
        f"who starts containers for {arm.runtime} sees other files than are here, as on another machine, in a "
        "virtual one or outside of this container: name one of this machine (DOCKER_HOST, `docker context ls`), "
        "or an image of its own by image=NAME"
    )


def _no_network(arm: Arm) -> str | None:
    if "--network=none" in options(arm, arm.runtime):
        return None
    return f"a network of its own cannot be had: {arm.runtime}:network=none or network=host does without"


OTHER_FILES = RefusalWords(
    r"bind source path does not exist|mounts denied|path \S+ is not shared from the host", _other_files
)
NO_NETWORK = RefusalWords(r"/dev/net/tun|slirp4netns|pasta|netavark|CNI|network \w+ not found", _no_network)
