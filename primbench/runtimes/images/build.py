"""Container images with the primbench that is running here, and the same versions of what it needs."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.resources
import os
import shutil
import subprocess
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.errors import BackendUnavailable, ImageError, InvalidRequest
from primbench.runtimes.images import pins
from primbench.runtimes.leftovers import launch_folder
from primbench.runtimes.table import known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from primbench.runtimes.images.builder import Builder, ImageRequest

ENDS_WITHIN_S = 10.0
_RECIPES = ("Containerfile", "primbench.def", "install.sh")
_OF_THE_INSTALLATION = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_OLDEST_OF_ZIP = (1980, 1, 1, 0, 0, 0)


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and what it took to build."""

    name: str
    """What an arm of a study calls it."""
    runtime: str
    """Which runtime built it."""
    runtime_version: str
    """The version of that runtime."""
    base: str
    """The image that it is built on."""
    extras: tuple[str, ...]
    """What else is installed in it, such as torch."""
    primbench: str
    """Version of primbench in it."""
    build_s: float
    """How long the runtime's own command took."""
    size_bytes: int | None
    """Its size, the base included; None, with the reason in ``missing``, where it is not known."""
    missing: dict[str, str] = {}
    """Field -> why it is not known."""


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


def installed() -> importlib.metadata.Distribution:
    """Raises InvalidRequest where this is a bare folder of code, of which nothing tells what it needs."""
    for found in importlib.metadata.distributions(name="primbench"):
        if found.read_text("WHEEL") is not None and found.files is not None:
            return found
    raise InvalidRequest(
        f"primbench runs from {importlib.resources.files('primbench')} and is not installed: an image needs its "
        "metadata: run `pip install -e .` where its pyproject.toml is"
    )


def pack_wheel(distribution: importlib.metadata.Distribution, folder: Path) -> Path:
    """The code that is running as a wheel again, from an editable install, too.

    The same code gives the same bytes, so that a builder's cache knows them.
    """
    wheel = folder / f"primbench-{distribution.version}-py3-none-any.whl"
    record = f"primbench-{distribution.version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, source in sorted(_contents(distribution)):
            held = source.read_bytes()
            _add(archive, name, held)
            digest = base64.urlsafe_b64encode(hashlib.sha256(held).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(held)}\n")
        _add(archive, record, "".join([*lines, f"{record},,\n"]).encode())
    return wheel


def _add(archive: zipfile.ZipFile, name: str, held: bytes) -> None:
    entry = zipfile.ZipInfo(name, _OLDEST_OF_ZIP)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, held, zipfile.ZIP_DEFLATED)


def _contents(distribution: importlib.metadata.Distribution) -> set[tuple[str, Path]]:
    """What a wheel of primbench holds, each by its name there."""
    found = dict(_files("primbench", importlib.resources.files("primbench")))
    for file in distribution.files or []:
        if file.parts[0].endswith(".dist-info") and file.name not in _OF_THE_INSTALLATION:
            found[str(file)] = Path(str(file.locate()))
    return set(found.items())


def _files(name: str, folder: Traversable) -> Iterator[tuple[str, Path]]:
    for each in folder.iterdir():
        if each.is_file():
            yield f"{name}/{each.name}", Path(str(each))
        elif each.name != "__pycache__":
            yield from _files(f"{name}/{each.name}", each)
