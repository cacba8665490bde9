"""Where this process is: CPU lists, NUMA nodes, a PCI device's node, control groups. Reads, never changes.

Every reader takes the ``root`` under which /proc and /sys are found. What cannot be read raises OSError,
what cannot be understood raises ValueError or InvalidRequest; ``attempt`` turns these into None and a reason.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from primbench.errors import InvalidRequest, PrimbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_CPUS = 2**20  # far above any kernel's limit (8192 on x86); bounds what a mistyped range can allocate

T = TypeVar("T")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One NUMA node. Ids need not be contiguous; some nodes have no CPUs, some no memory.

    cpus: those online. allowed: this process may take memory there (its cpuset has the node).
    """

    id: int
    cpus: list[int]
    has_memory: bool
    allowed: bool


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format, ``0-3,8``, in ascending order; an empty list is ().

    Raises InvalidRequest on a descending range, a number of 2^20 or more, or anything else than numbers.
    """
    if not text.strip():
        return ()
    numbers: set[int] = set()
    for part in text.strip().split(","):
        found = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", part)
        if found is None:
            raise InvalidRequest(f"CPU list {text.strip()!r}: {part!r} is neither a number nor a range such as 0-3")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < MAX_CPUS:
            raise InvalidRequest(f"CPU list {text.strip()!r}: {part} must ascend and stay below {MAX_CPUS}")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Inverse of ``parse_cpu_list``; also for node ids."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def memory_nodes(root: Path = Path("/")) -> list[Node]:
    """The NUMA nodes online, by id."""
    folder = root / "sys/devices/system/node"
    with_memory = _cpu_list_of(folder / "has_memory")
    allowed = parse_cpu_list(labelled_value(root / "proc/self/status", "Mems_allowed_list"))
    return [
        Node(
            id=node,
            cpus=list(_cpu_list_of(folder / f"node{node}/cpulist")),
            has_memory=node in with_memory,
            allowed=node in allowed,
        )
        for node in _cpu_list_of(folder / "online")
    ]


def sysfs_address(address: str) -> str:
    """The address as sysfs writes it: lower case, domain of four digits unless it needs more.

    NVML writes ``00000000:65:00.0``, CUDA and sysfs ``0000:65:00.0``. Raises InvalidRequest on anything else.
    """
    found = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", address.strip().lower())
    if found is None:
        raise InvalidRequest(f"PCI address {address!r}: expected the form 0000:65:00.0")
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}"


def node_of_pci(address: str, root: Path = Path("/")) -> int | None:
    """The NUMA node of a PCI device; None where the kernel says -1, which is "not known" and not node 0."""
    node = read_number(root / "sys/bus/pci/devices" / sysfs_address(address) / "numa_node")
    return node if node >= 0 else None


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


def read_number(path: Path) -> int:
    """The whole number that is all of a file."""
    return whole_number(path.read_text(), path)


def whole_number(text: str, path: Path) -> int:
    """Raises ValueError naming the file that ``text`` was read from where it is something else."""
    if re.fullmatch(r"\s*-?[0-9]{1,20}\s*", text, re.ASCII) is None:
        raise ValueError(f"{path}: expected a whole number, found {text.strip()[:40]!r}")
    return int(text)


def labelled_value(path: Path, label: str) -> str:
    """The text after ``label:`` in a file of such lines (/proc/self/status, /proc/meminfo, /proc/cpuinfo).

    Reads up to that line only: the rest of /proc/cpuinfo costs milliseconds on a large machine.
    Raises ValueError where there is no such line.
    """
    with path.open() as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if colon and name.strip() == label:
                return value.strip()
    raise ValueError(f"{path} has no {label}")


def attempt(missing: dict[str, str], field: str, read: Callable[[], T]) -> T | None:
    """What ``read`` returns, or None with the reason in ``missing[field]``."""
    try:
        return read()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        missing[field] = f"{error.filename or error.strerror}: {name}"
    except (ValueError, ArithmeticError, LookupError, PrimbenchError) as error:
        missing[field] = f"{error}"
    return None


def _cpu_list_of(path: Path) -> tuple[int, ...]:
    try:
        return parse_cpu_list(path.read_text())
    except InvalidRequest as error:
        raise ValueError(f"{path}: {error}") from None
