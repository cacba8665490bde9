"""Apptainer."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.errors import InvalidRequest
from primbench.runtimes import engine
from primbench.runtimes.hostroot import OF_CONTAINERS, caches, make_skeleton, read_only
from primbench.runtimes.images.builder import DEFAULT_TAG, Builder, ImageRequest, arguments
from primbench.runtimes.invocation import Invocation, client, options, variables
from primbench.runtimes.mounts import binds
from primbench.runtimes.runtime import Parts, Runtime, Signs, no_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.arm import Arm


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """The invocation of an arm; variables are passed as APPTAINERENV_NAME, as --env splits values at commas."""
    image, rest = str(arm.image), options(arm, "apptainer")
    if arm.on_host_root:
        image = str(make_skeleton(folder))
        rest += [f"--bind={bound}:{bound}:ro" for bound in read_only(arm, OF_CONTAINERS)]
        rest += [f"--bind={caches(folder)}"]
    elif gpus:
        rest += ["--nv"]
    rest += [f"--bind={each.source}:{each.target}{':ro' * each.is_read_only}" for each in binds(arm, folder)]
    inside = {f"APPTAINERENV_{name}": value for name, value in variables(arm, folder).items()}
    return Invocation(
        worker=["apptainer", "--silent", "exec", "--cleanenv", "--no-home", "--pwd=/", *rest, image, *command],
        environment=dict(os.environ) | inside,
    )


def build(request: ImageRequest) -> list[str]:
    """Raises InvalidRequest where the image cannot be written: what is there is replaced if it is a file."""
    path = Path(request.tag).absolute()
    if path.exists() and not path.is_file():
        raise InvalidRequest(f"--tag {request.tag}: is a folder, and Apptainer's image is a file: primbench.sif")
    if not path.parent.is_dir():
        raise InvalidRequest(f"--tag {request.tag}: there is no folder {path.parent}")
    kind, base = "docker", request.base
    if os.path.exists(base):
        kind, base = "localimage", os.path.realpath(base)
    return [
        *("apptainer", "build", "--force", f"--build-arg=BOOTSTRAP={kind}"),
        *arguments(msgspec.structs.replace(request, base=base)),
        *(str(path), "primbench.def"),
    ]


RUNTIME = Runtime(
    rank=30,
    mechanisms=engine.MECHANISMS | {"apptainer", "process"},
    found=partial(client, "apptainer", "--version"),
    launch=launch,
    signs=Signs(
        variables=("APPTAINER_NAME", "APPTAINER_CONTAINER"),
        group=r"/apptainer[-/][0-9]+",
        root=r"/apptainer/mnt/session",  # where Apptainer assembles a container's root
        also_sets="singularity",  # its predecessor
    ),
    refusals=(
        no_image(
            r"could not open image|Unable to handle",
            "name a file or a folder in full, `apptainer pull` fetches one",
        ),
        engine.NO_NETWORK,
    ),
    parts=Parts(("runc", "crun")),
    gpus="it was asked for them by --nv: see whether /dev/nvidia* and libcuda.so.1 are on this machine",
    builder=Builder(
        command=build,
        name=lambda tag: str(Path(tag).absolute()),
        size_bytes=lambda name: os.path.getsize(name),
        tag=f"{DEFAULT_TAG}.sif",
    ),
)
