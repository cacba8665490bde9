"""A process's control groups, v1, v2 or both, as far as they are visible here.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from primbench.system.files import Mount, read_mounts, whole_number
from primbench.system.processes import folder_of, words_for

USUAL_WEIGHT, USUAL_SHARES = 100, 1024  # of CPU time, in v2 and in v1
V1_NO_LIMIT_BYTES = 2**62  # v1 writes "no limit" as the largest multiple of a page


Folders = Callable[[str], list[Path]]
"""Controller -> what ``cgroup_folders`` finds of one process."""


def folders_of(root: Path = Path("/"), pid: int = 0) -> Folders:
    """Of several controllers, for which the process's groups and what is mounted are read once."""
    read = functools.cache(lambda: (paths_of(root, pid), _cgroup_mounts(root)))
    return lambda controller: _found(controller, *read(), root, pid)


def cgroup_folders(controller: str, root: Path = Path("/"), pid: int = 0) -> list[Path]:
    """The control group of a process, 0 this one, and those above it, as far as they are visible, nearest first.

    Of the v1 hierarchy that has the ``controller``, else of the v2 one. A limit on any of them holds.
    Raises ValueError where no such hierarchy is mounted, or nowhere as far down as the process is in it.
    """
    return folders_of(root, pid)(controller)


def _found(
    controller: str, paths: Mapping[str, PurePosixPath], there: Sequence[Mount], root: Path, pid: int
) -> list[Path]:
    is_v1 = bool(controller) and controller in paths  # v2 has those that no v1 hierarchy took
    path = paths.get(controller if is_v1 else "")
    mounts = [mount for mount in there if _has(mount, controller, is_v1=is_v1)]
    if path is None or not mounts:
        raise ValueError(f"no control groups with {controller} are mounted")
    for mount in mounts:
        folders = _folders(path, mount, root)
        if folders:
            return folders
    raise ValueError(f"the control group {path} of {words_for(pid)} lies outside what is mounted here")


def _has(mount: Mount, controller: str, *, is_v1: bool) -> bool:
    return controller in mount.options.split(",") if is_v1 else mount.kind == "cgroup2"


def _folders(path: PurePosixPath, mount: Mount, root: Path) -> list[Path]:
    """The control group and those above it, by this mount; none where it does not show the control group."""
    # In a container the path may still be the host's: the mount's own root says how much of it to drop.
    if not path.is_relative_to(mount.source):
        return []
    steps = path.relative_to(mount.source).parts
    top = root / mount.point.lstrip("/")
    if ".." in steps or not top.joinpath(*steps).is_dir():
        return []
    return [top.joinpath(*steps[:depth]) for depth in range(len(steps), -1, -1)]


def limit_in(path: Path) -> int | None:
    """The number in a file such as memory.max; None for max, and where there is no such file, as in the root group."""
    text = path.read_text().strip() if path.exists() else "max"
    return None if text == "max" else whole_number(text, path)


def counters(path: Path) -> dict[str, int]:
    """Lines of a name and a number; none where there is no such file."""
    return {name: whole_number(value, path) for name, _, value in (line.partition(" ") for line in lines_of(path))}


def lines_of(path: Path) -> list[str]:
    """None where there is no such file."""
    return path.read_text().splitlines() if path.exists() else []


def cgroup_version(root: Path = Path("/")) -> str:
    """One of "v1", "v2" and, where both are mounted, "hybrid". Raises ValueError where neither is."""
    kinds = {mount.kind for mount in _cgroup_mounts(root)}
    if not kinds:
        raise ValueError("no control groups are mounted")
    return "hybrid" if len(kinds) == 2 else "v2" if "cgroup2" in kinds else "v1"


def paths_of(root: Path, pid: int) -> dict[str, PurePosixPath]:
    """Controller -> path of a process's group, by /proc/PID/cgroup; the v2 path under the empty name."""
    paths: dict[str, PurePosixPath] = {}
    for line in (folder_of(root, pid) / "cgroup").read_text(errors="backslashreplace").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    return paths


def _cgroup_mounts(root: Path) -> list[Mount]:
    """As they are mounted here: a container has its own part of them alone."""
    return read_mounts(root, kind="cgroup")
