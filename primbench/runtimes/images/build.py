"""Container images with the primbench that is running here, and the same versions of what it needs."""

from __future__ import annotations

import getpass
import importlib.metadata
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from primbench import runtimes
from primbench.errors import BackendUnavailable, ImageError, InvalidRequest
from primbench.runtimes.images import pins
from primbench.runtimes.images.wheel import installed, pack_wheel
from primbench.runtimes.launch import PATH, answer

DEFAULT_BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
"""This Python, on Debian: CUDA's libraries come with the extras, and the driver with the machine."""

DEFAULT_TAG = "primbench"
ENDS_WITHIN_S = 10.0
_RECIPES = ("Containerfile", "primbench.def", "install.sh")
_FOR_CH_IMAGE = re.compile(
    r"CH_.+|HOME|USER|LANG|LC_ALL|TERM|TMPDIR|(https?|ftp|no|all)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\s-]\S*")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """tag: the image's name, for Apptainer its file. base: an image, for Apptainer a folder or file, too."""

    runtime: str
    tag: str = DEFAULT_TAG
    base: str = DEFAULT_BASE
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        for option, text in (("tag", self.tag), ("base", self.base)):
            if not _WORD.fullmatch(text):
                raise InvalidRequest(f"--{option} {text!r}: the name of an image, such as {DEFAULT_BASE}")


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


class _Builder(NamedTuple):
    """command: run in the folder that the image is built from. name: of the image, for an arm.

    size_bytes: of the image of that name, or why it is unknown.
    """

    command: Callable[[Request], list[str]]
    name: Callable[[str], str]
    size_bytes: Callable[[str], int | str]


def build(request: Request) -> Image:
    """The runtime's own words go to stderr as they come.

    Raises BackendUnavailable where the runtime cannot be used, ImageError where it fails, InvalidRequest.
    """
    builder, distribution = BUILDERS[request.runtime], installed()
    _check_extras(request.extras, distribution)
    command = builder.command(request)
    version = _usable(request.runtime, command[0])
    with tempfile.TemporaryDirectory(prefix="primbench-") as folder:
        fill(Path(folder), distribution, request.extras)
        build_s = _run(command, Path(folder))
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
    reason, version = runtimes.RUNTIMES[runtime].found()
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


def _run(command: Sequence[str], folder: Path) -> float:
    """How long it took, in seconds. It ends with this process, unless that is killed."""
    begun = time.monotonic()
    environment = environment_of(command[0])
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


def environment_of(program: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """ch-image is a program in Python, and hands all it has to what it runs in the image: it gets what is meant for it.

    Its Python is the one beside it, if there is one, and no virtual environment's.
    """
    if program != "ch-image":
        return dict(environ)
    own = os.path.dirname(shutil.which(program, path=environ.get("PATH")) or "")
    passed = {name: value for name, value in environ.items() if _FOR_CH_IMAGE.fullmatch(name)}
    return {"USER": getpass.getuser()} | passed | {"PATH": f"{own}:{PATH}" if own else PATH}


def _engine(client: str) -> _Builder:
    """The network is the machine's, so that the build reaches what the machine reaches."""
    return _Builder(
        command=lambda request: [
            client, "build", "--network=host", "--file=Containerfile", f"--tag={request.tag}", *_arguments(request), "."
        ],
        name=lambda tag: tag,
        size_bytes=lambda name: _number(answer([client, "image", "inspect", "--format={{.Size}}", name])),
    )  # fmt: skip


def _arguments(request: Request) -> list[str]:
    return [f"--build-arg=BASE={request.base}", f"--build-arg=EXTRAS={','.join(request.extras)}"]


def _number(answered: tuple[str | None, str]) -> int | str:
    reason, line = answered
    if reason is not None:
        return reason
    return int(line) if line.isdecimal() else f"{line!r} is no number of bytes"


def _apptainer(request: Request) -> list[str]:
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
        *_arguments(msgspec.structs.replace(request, base=base)),
        *(str(path), "primbench.def"),
    ]


def _tagged(name: str) -> str:
    """With a tag, since versions of ch-image differ in where they keep an image that has none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _charliecloud_folder(name: str) -> str:
    """Where ch-image keeps an image."""
    storage = os.environ.get("CH_IMAGE_STORAGE") or f"/var/tmp/{getpass.getuser()}.ch"
    return os.path.join(storage, "img", name.replace("/", "%").replace(":", "+"))


def _tree_bytes(folder: str) -> int | str:
    """Of a folder's files, those of several names once."""
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    sizes = {}
    for where, _, names in os.walk(folder):
        for name in names:
            found = os.lstat(os.path.join(where, name))
            sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


BUILDERS = {
    "docker": _engine("docker"),
    "podman": _engine("podman"),
    "apptainer": _Builder(
        command=_apptainer,
        name=lambda tag: str(Path(tag).absolute()),
        size_bytes=lambda name: os.path.getsize(name),
    ),
    "charliecloud": _Builder(
        command=lambda request: [
            "ch-image", "build", f"--tag={_tagged(request.tag)}", "--file=Containerfile", *_arguments(request), "."
        ],
        name=_tagged,
        size_bytes=lambda name: _tree_bytes(_charliecloud_folder(name)),
    ),
}  # fmt: skip
