"""Settings of files: what the root is made of, folders in memory or shown by a program, a library before others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_FILES, ON_CPU, ContainerIngredient, Setting, engines
from primbench.spec.values import OneOf, path, paths, write_names

if TYPE_CHECKING:
    from primbench.spec.setting import Container, Pairs, SeenByWorker, Surroundings


def _overlay_root(container: Container, root: str) -> None:
    if root == "overlay":
        if not container.arm.on_host_root:
            raise InvalidRequest(f"of the host's files alone: leave out image={container.arm.image}")
        container.is_overlay = True


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
)  # fmt: skip
