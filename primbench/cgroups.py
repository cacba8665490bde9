"""This process's control groups, v1, v2 or both, as far as they are visible here.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from primbench.sysfiles import Mount, read_mounts


def cgroup_folders(controller: str, root: Path = Path("/")) -> list[Path]:
    """This process's control group and those above it, as far as they are visible, nearest first.

    The v1 hierarchy of ``controller`` where it is mounted, else the v2 one. A limit on any of them holds.
    Raises ValueError where no such hierarchy is mounted, or not as far down as this process is in it.
    """
    paths = _cgroup_paths(root)
    for mount in _cgroup_mounts(root):
        holds = controller in mount.options.split(",")
        path = paths.get("") if mount.kind == "cgroup2" else paths.get(controller) if holds else None
        if path is None:
            continue
        # In a container the path may still be the host's: the mount's own root says how much of it to drop.
        steps = PurePosixPath(path).relative_to(mount.source).parts
        top = root / mount.point.lstrip("/")
        if ".." in steps or not top.joinpath(*steps).is_dir():
            raise ValueError(f"the control group {path} of this process lies outside what is mounted here")
        return [top.joinpath(*steps[:depth]) for depth in range(len(steps), -1, -1)]
    raise ValueError(f"no control groups with {controller} are mounted")


def cgroup_version(root: Path = Path("/")) -> str:
    """One of "v1", "v2" and, where both are mounted, "hybrid". Raises ValueError where neither is."""
    kinds = {mount.kind for mount in _cgroup_mounts(root)}
    if not kinds:
        raise ValueError("no control groups are mounted")
    return "hybrid" if len(kinds) == 2 else "v2" if "cgroup2" in kinds else "v1"


def _cgroup_paths(root: Path) -> dict[str, str]:
    """Controller -> path from /proc/self/cgroup; the v2 path under the empty name."""
    paths = {}
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _cgroup_mounts(root: Path) -> list[Mount]:
    """v1 first: on a hybrid machine its hierarchies have the controllers."""
    mounts = [mount for mount in read_mounts(root) if mount.kind in ("cgroup", "cgroup2")]
    return sorted(mounts, key=lambda mount: mount.kind)
