"""Charliecloud: a mount and a user namespace, and no limits of its own."""

from __future__ import annotations

import getpass
import os
import re
import shutil
from typing import TYPE_CHECKING

from primbench.runtimes import engine
from primbench.runtimes.hostroot import bound_folders, caches, make_skeleton
from primbench.runtimes.images.builder import Builder, ImageRequest, arguments
from primbench.runtimes.invocation import PATH, Invocation, answer, variables, version
from primbench.runtimes.mounts import binds
from primbench.runtimes.runtime import Runtime, Signs, no_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

_FOR_CH_IMAGE = re.compile(
    r"CH_.+|HOME|USER|LANG|LC_ALL|TERM|TMPDIR|(https?|ftp|no|all)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE",
    re.IGNORECASE,
)


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer(["ch-run", "--version"], {"USER": user(), **os.environ})
    return reason, version(line)


def user() -> str:
    """The user's name, or the number of one who is in no list of users, as a scheduler or a container may have it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # before Python 3.13, and since
        return str(os.getuid())


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """The host's devices are there as they are. What is in ch-run's environment is in the worker's.

    What is bound may be written to, as by the user.
    """
    image, chosen = str(arm.image), list[str]()
    if arm.on_host_root:
        image = str(make_skeleton(folder))
        chosen = [f"--bind={bound}" for bound in (*bound_folders(), caches(folder))]
    elif "CH_IMAGE_STORAGE" in os.environ:
        chosen = [f"--storage={os.environ['CH_IMAGE_STORAGE']}"]  # where an image's name is looked up
    chosen += [f"--bind={each.source}:{each.target}" for each in binds(arm, folder)]
    environment = {"PATH": PATH, "USER": user()} | variables(arm, folder)
    return Invocation(
        worker=["ch-run", "--cd=/", "--no-passwd", *chosen, image, "--", *command], environment=environment
    )


def tagged(name: str) -> str:
    """The image's name with a tag: versions of ch-image differ in where they keep one without."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def build(request: ImageRequest) -> list[str]:
    return ["ch-image", "build", f"--tag={tagged(request.tag)}", "--file=Containerfile", *arguments(request), "."]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """ch-image is a program in Python, and hands all it has to what it runs in the image: it gets what is meant for it.

    Its Python is the one beside it, if there is one, and no virtual environment's.
    """
    own = os.path.dirname(shutil.which("ch-image", path=environ.get("PATH")) or "")
    passed = {name: value for name, value in environ.items() if _FOR_CH_IMAGE.fullmatch(name)}
    return {"USER": user()} | passed | {"PATH": f"{own}:{PATH}" if own else PATH}


def size_bytes(name: str) -> int | str:
    """Size of an image's files in ch-image's storage, hard links counted once; a string is why it is unknown."""
    storage = os.environ.get("CH_IMAGE_STORAGE") or f"/var/tmp/{user()}.ch"
    folder = os.path.join(storage, "img", name.replace("/", "%").replace(":", "+"))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    sizes = {}
    for where, _, names in os.walk(folder):
        for each in names:
            found = os.lstat(os.path.join(where, each))
            sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


RUNTIME = Runtime(
    rank=40,
    mechanisms=engine.MECHANISMS | {"process"},
    found=found,
    launch=launch,
    signs=Signs(variables=("CH_RUNNING",)),
    refusals=(
        no_image(
            r"can't stat",
            "name a folder in full, or what `ch-image list` lists; `ch-image pull` fetches one",
        ),
    ),
    gpus="its /dev is this machine's; `ch-fromhost --nvidia` puts the driver's libraries into an image",
    builder=Builder(command=build, name=tagged, size_bytes=size_bytes, environment=environment),
)
