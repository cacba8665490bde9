"""Container images with the primbench that is running here, and the same versions of what it needs."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import msgspec

from primbench.errors import BackendUnavailable, ImageError, InvalidRequest
from primbench.runtimes.images import pins
from primbench.runtimes.images.wheel import installed, pack_wheel
from primbench.runtimes.leftovers import launch_folder
from primbench.runtimes.table import known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from primbench.runtimes.images.builder import Builder, ImageRequest

ENDS_WITHIN_S = 10.0
_RECIPES = ("Containerfile", "primbench.def", "install.sh")


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and what it took to build.

    name: what an arm of a study calls it. build_s: of the runtime's own command. size_bytes: the base included.
    """

    name: str
    runtime: str
    runtime_version: str
    base: str
    extras: tuple[str, ...]
    primbench: str
    build_s: float
    size_bytes: int | None
    missing: dict[str, str] = {}


def builders() -> dict[str, Builder]:
    """Runtime -> its builder of images, for runtimes that have one."""
    return {name: runtime.builder for name, runtime in known().items() if runtime.builder is not None}


def build(request: ImageRequest) -> Image:
    """The runtime's own words go to stderr as they come.

    Raises BackendUnavailable where the runtime cannot be used, ImageError where it fails, InvalidRequest.
    """
    builder, distribution = builders()[request.runtime], installed()
    _check_extras(request.extras, distribution)
    command = builder.command(request)
    version = _usable(request.runtime, command[0])
    with launch_folder() as launched:
        context = launched / "context"
        context.mkdir()
        fill(context, distribution, request.extras)
        build_s = _run(command, context, builder.environment(os.environ))
    name = builder.name(request.tag)
    size = builder.size_bytes(name)
    return Image(
        name=name,
        runtime=request.runtime,
        runtime_version=version,
        base=request.base,
        extras=request.extras,
        primbench=distribution.version,
        build_s=build_s,
        size_bytes=size if isinstance(size, int) else None,
        missing={"size_bytes": size} if isinstance(size, str) else {},
    )


def _usable(runtime: str, program: str) -> str:
    """The version of a runtime that works here. program: what builds, which need not be what runs images."""
    reason, version = known()[runtime].found()
    if reason is None and shutil.which(program) is None:
        reason = f"{program} is not installed"
    if reason is not None:
        raise BackendUnavailable(f"--runtime {runtime}: {reason}: `primbench arms` lists those that work here")
    return version


def fill(folder: Path, distribution: importlib.metadata.Distribution, extras: Sequence[str] = ()) -> None:
    """What an image is built from: the recipes, the wheel, and the versions here of what that needs."""
    recipes = importlib.resources.files("primbench.containers")
    for name in _RECIPES:
        (folder / name).write_bytes((recipes / name).read_bytes())
    (folder / "constraints.txt").write_text("".join(f"{line}\n" for line in pins.constraints(extras)))
    pack_wheel(distribution, folder)


def _check_extras(extras: Sequence[str], distribution: importlib.metadata.Distribution) -> None:
    there = distribution.metadata.get_all("Provides-Extra") or []
    for extra in extras:
        if extra not in there:
            raise InvalidRequest(f"--extra {extra}: primbench {distribution.version} has {', '.join(sorted(there))}")


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """How long it took, in seconds. It ends with this process, unless that is killed."""
    begun = time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=2) as process:
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if status:
        raise ImageError(f"{command[0]} {command[1]} ended with exit status {status}: what it said is above")
    return time.monotonic() - begun
