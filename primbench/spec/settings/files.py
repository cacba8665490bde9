"""Settings of files: what the root is made of, folders in memory or shown by a program, a library before others."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_FILES, ON_CPU, ContainerIngredient, Setting, engines
from primbench.spec.settings.variables import is_said
from primbench.spec.values import OneOf, path, paths, write_names
from primbench.system.distributions import places, versions, with_required

if TYPE_CHECKING:
    from primbench.spec.setting import Container, Pairs, SeenByWorker, Surroundings

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9-]*@/[^,:+@\s\0]+")
SEARCHED = "PYTHONPATH"
_HERE = "{}.{}".format(*sys.version_info)


def _overlay_root(container: Container, root: str) -> None:
    if root == "overlay":
        if not container.arm.on_host_root:
            raise InvalidRequest(f"of the host's files alone: leave out image={container.arm.image}")
        container.is_overlay = True


def _mounts(text: str) -> tuple[str, ...]:
    """Raises InvalidRequest."""
    found = tuple(text.split("+"))
    for each in found:
        source, colon, point = each.partition(":")
        if not colon:
            raise InvalidRequest(f"{each!r}: a folder and where it is seen, as in /mnt/nfs/scratch:/scratch")
        path(source)
        path(point)
    return found


def _point_of(mount: str) -> str:
    return mount.rpartition(":")[2]


def _at_different_points(found: tuple[str, ...], arm: Any) -> str | None:
    points = [*map(_point_of, found)]
    others = {*arm.tmpfs, *arm.fuse_overlay}
    twice = next((each for each in points if points.count(each) > 1 or each in others), None)
    return f"mount: {twice} is named twice as where something is seen" if twice else None


def _in_memory(container: Container, folders: tuple[str, ...]) -> None:
    for folder in folders:
        mount = {"destination": folder, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}
        container.config["mounts"].append(mount)


def _tmpfs(folders: tuple[str, ...]) -> Pairs:
    return [("--tmpfs", f"{folder}:exec,mode=1777") for folder in folders]


def _said_once(library: str, arm: Any) -> str | None:
    if "LD_PRELOAD" in (*arm.variables, *arm.passed):
        return "preload with env.LD_PRELOAD: both say the same; leave one out"
    return None


def _put_first(found: Surroundings, library: str) -> None:
    found.values["LD_PRELOAD"] = found.shown(library)


def _not_loaded(asked: str, found: dict[str, Any], seen: SeenByWorker) -> str | None:
    """By the file's name: the dynamic linker leaves out what it cannot load, and says so where nobody hears it.

    Mapped is what a link leads to.
    """
    names = {file.name for file in found.get("LD_PRELOAD", [])}
    return None if names & {os.path.basename(asked), os.path.basename(os.path.realpath(asked))} else "it not loaded"


def _packages(text: str) -> tuple[str, ...]:
    """Packages, each with its folder. Raises InvalidRequest."""
    if "@" not in text:
        folder = _of_packages(path(text))
        if not (found := _others(folder)):
            raise InvalidRequest("no package of another version than here, and none that is not here")
        return tuple(f"{name}@{folder}" for name in found)
    if wrong := [each for each in text.split("+") if not _PACKAGE.fullmatch(each)]:
        raise InvalidRequest(f"{wrong[0]!r}: a package's name, an @ and its folder in full")
    return tuple(text.split("+"))


def _of_packages(environment: str) -> str:
    """The folder where an environment has its packages. Raises InvalidRequest."""
    found = sorted(Path(environment).glob("lib/python3*/site-packages")) or [Path(environment)]
    version = next(
        (each.removeprefix("python") for each in found[0].parts if re.fullmatch(r"python3\.\d+", each)), _HERE
    )
    if version != _HERE:
        raise InvalidRequest(f"of Python {version}, and here is {_HERE}, which cannot import them")
    if not versions(map(str, found)):
        raise InvalidRequest("no package lies there: name an environment, or a folder such as its site-packages")
    return str(found[0])


def _others(folder: str) -> list[str]:
    """Names of the packages of a folder that are not here, or in another version. What measures is that of here."""
    here = versions(sys.path) | {"primbench": None}
    return sorted(name for name, version in versions([folder]).items() if here.get(name, "") not in (version, None))


def _name_of(package: str) -> str:
    return package.partition("@")[0]


def _said_by_path(found: tuple[str, ...], arm: Any) -> str | None:
    names = [*map(_name_of, found)]
    if twice := [each for each in names if names.count(each) > 1]:
        return f"packages: {twice[0]} is given twice"
    if is_said(SEARCHED, arm):
        return f"packages with another setting of {SEARCHED}: both say what is imported; leave one out"
    return None


def _put_packages_first(found: Surroundings, packages: tuple[str, ...]) -> None:
    shown: dict[str, str] = {}
    for name, _, folder in (each.partition("@") for each in packages):
        if name not in versions([folder]):
            raise InvalidRequest(f"packages={name}@{folder}: no such package lies there")
        others = {*_others(folder)} - {_name_of(each) for each in packages}
        for each in with_required(name, folder, others):
            shown = {**places(each, folder), **shown}
    held = found.values.get(SEARCHED)
    found.values[SEARCHED] = ":".join(filter(None, (found.linked(shown), held)))


def _other_version(asked: tuple[str, ...], held: dict[str, str], seen: SeenByWorker) -> str | None:
    """Of those whose versions are recorded of a place."""
    for name, _, folder in (each.partition("@") for each in asked):
        if name in held and held[name] != versions([folder]).get(name):
            return f"{name} {held[name]}"
    return None


ROWS = (
    Setting(
        "root", "root", Literal["bind", "overlay"] | None,
        "The host's files: bound folder by folder, or below an overlay.", "overlay", parse=OneOf("bind", "overlay"),
        oci=_overlay_root, rule="files",
        shows=(("confinement", "root_filesystem"), ("confinement", "filesystems")),
        moves=OF_FILES, without=lambda arm: {"root": "bind" if arm.root == "overlay" else arm.root},
        ingredient=ContainerIngredient("overlay root", "bind", lambda engine, room: "overlay"),
    ),
    Setting(
        "mount", "mounts", tuple[str, ...], "Folders of this machine that are seen at other places, too.",
        "/mnt/nfs/scratch:/scratch", parse=_mounts, write=write_names, default=(), named=_point_of,
        check=_at_different_points,
        seen_to=("binds",), rule="files",
        moves=OF_FILES, programs=bool,
    ),
    Setting(
        "tmpfs", "tmpfs", tuple[str, ...], "Empty folders in memory.", "/data+/scratch",
        parse=paths, write=write_names, default=(),
        options=engines(_tmpfs), oci=_in_memory, seen_to=("mounts",), rule="files",
        moves=OF_FILES,
    ),
    Setting(
        "fuse-overlay", "fuse_overlay", tuple[str, ...],
        "Folders of this machine that are shown through fuse-overlayfs.", "/data",
        parse=paths, write=write_names, default=(), seen_to=("overlays",), rule="files",
        shows=(("confinement", "far_mounts"),),
        moves=OF_FILES, programs=bool, of_this_machine=True,
    ),
    Setting(
        "preload", "preload", str | None, "A library of this machine that is put before all others (LD_PRELOAD).",
        "/usr/lib/libjemalloc.so.2", parse=path, check=_said_once, surroundings=_put_first,
        shows=(("software", "preloads"),), unlike=_not_loaded,
        mend="see whether it is a library for this machine's programs (file, ldd)",
        moves=(*ON_CPU, *OF_FILES), programs=bool, of_this_machine=True,
    ),
    Setting(
        "packages", "packages", tuple[str, ...],
        "Python packages of another environment on this machine, before those here, with what they require and is "
        "another here, too; a folder alone is all of its packages that are others here.",
        "numpy@/srv/other/lib/python3.12/site-packages", parse=_packages, write=write_names, default=(),
        named=_name_of, check=_said_by_path, surroundings=_put_packages_first,
        fact=("software", "packages"), unlike=_other_version,
        mend="see whether what is imported before it, such as by a .pth file, is another",
        moves=(*ON_CPU, *OF_FILES), programs=bool, of_this_machine=True,
    ),
)  # fmt: skip
