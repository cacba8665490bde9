"""This process's control groups, v1, v2 or both, as far as they are visible here.

Every reader takes the ``root`` under which /proc and /sys are found.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath


def cgroup_folders(controller: str, root: Path = Path("/")) -> list[Path]:
    """This process's control group and those above it, as far as they are visible, nearest first.

    The v1 hierarchy of ``controller`` where it is mounted, else the v2 one. A limit on any of them holds.
    Raises ValueError where no such hierarchy is mounted, or not as far down as this process is in it.
    """
    paths = _cgroup_paths(root)
    for mounted_root, mount_point, kind, options in _cgroup_mounts(root):
        path = paths.get("") if kind == "cgroup2" else paths.get(controller) if controller in options else None
        if path is None:
            continue
        # In a container the path may still be the host's: the mount's own root says how much of it to drop.
        steps = PurePosixPath(path).relative_to(mounted_root).parts
        top = root / mount_point.lstrip("/")
        if ".." in steps or not top.joinpath(*steps).is_dir():
            raise ValueError(f"the control group {path} of this process lies outside what is mounted here")
        return [top.joinpath(*steps[:depth]) for depth in range(len(steps), -1, -1)]
    raise ValueError(f"no control groups with {controller} are mounted")


def cgroup_version(root: Path = Path("/")) -> str:
    """One of "v1", "v2" and, where both are mounted, "hybrid". Raises ValueError where neither is."""
    kinds = {kind for _, _, kind, _ in _cgroup_mounts(root)}
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


def _cgroup_mounts(root: Path) -> list[tuple[str, str, str, list[str]]]:
    """(root within the hierarchy, mount point, "cgroup" or "cgroup2", options), v1 first: proc(5)."""
    mounts = []
    for line in (root / "proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            mounted_root, mount_point = before.split(" ")[3:5]
            mounts.append((mounted_root, mount_point, kind, options.split(",")))
    return sorted(mounts, key=lambda mount: mount[2])
