"""Read what Linux says in files of text: numbers, lists of CPUs, labelled lines. Reads, never changes.

What cannot be read raises OSError, what cannot be understood raises ValueError or InvalidRequest; ``attempt`` turns
these into None and a reason.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from primbench.errors import InvalidRequest, PrimbenchError
from primbench.system.processes import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

MAX_CPUS = 2**20  # far above any kernel's limit (8192 on x86); bounds what a mistyped range can allocate

T = TypeVar("T")


class Mount(NamedTuple):
    """A mount, as a line of mountinfo has it: proc(5)."""

    source: str
    """Which path of the file system is mounted."""
    point: str
    kind: str
    options: str
    """Options of the file system."""
    own_options: str = ""
    """Options of this mount of it, such as "rw,relatime"."""
    device: str = ""
    """Its device: major and minor number, "8:1"."""


def trimmed(text: str) -> str:
    """The text without space around it and without the zero bytes that some drivers' files end with."""
    return text.strip(" \t\r\n\0")


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format, ``0-3,8``, in ascending order; an empty list is ().

    ``0-62:2`` is every second of a range, as taskset(1) has it; ``0-62:2/8`` the first 2 of every 8 (Linux,
    bitmap_parselist). Raises InvalidRequest on a descending range, a number of 2^20 or more, or anything else.
    """
    words = trimmed(text)
    numbers: set[int] = set()
    for part in words.split(",") if words else ():
        found = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7})(?:/([0-9]{1,7}))?)?)?", part)
        if found is None:
            raise InvalidRequest(f"CPU list {words!r}: {part!r} is neither a number nor a range such as 0-3")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < MAX_CPUS:
            raise InvalidRequest(f"CPU list {words!r}: {part} must ascend and stay below {MAX_CPUS}")
        used, group = (int(found[3]), int(found[4])) if found[4] else (1, int(found[3] or 1))
        if not 1 <= used <= group:
            raise InvalidRequest(f"CPU list {words!r}: {part}: a step of at least 1, such as 0-62:2 or 0-62:2/8")
        for start in range(first, last + 1, group):
            numbers.update(range(start, min(start + used, last + 1)))
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


def read_cpu_list(path: Path) -> tuple[int, ...]:
    """The list that is all of a file, which a ValueError names."""
    try:
        return parse_cpu_list(path.read_text())
    except InvalidRequest as error:
        raise ValueError(f"{path}: {error}") from None


def sysfs_address(address: str) -> str:
    """The address as sysfs writes it: lower case, domain of four digits unless it needs more.

    NVML writes ``00000000:65:00.0``, CUDA and sysfs ``0000:65:00.0``. Raises InvalidRequest on anything else.
    """
    found = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", address.strip().lower())
    if found is None:
        raise InvalidRequest(f"PCI address {address!r}: expected the form 0000:65:00.0")
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}"


def read_number(path: Path) -> int:
    """The whole number that a file consists of. Raises OSError, ValueError."""
    return whole_number(path.read_text(), path)


def whole_number(text: str, path: Path) -> int:
    """Raises ValueError naming the file that ``text`` was read from where it is something else."""
    number = trimmed(text)
    if re.fullmatch(r"-?[0-9]{1,20}", number, re.ASCII) is None:
        raise ValueError(f"{path}: expected a whole number, found {number[:40]!r}")
    return int(number)


def labelled_value(path: Path, label: str) -> str:
    """The text after ``label:`` in a file of such lines (/proc/self/status, /proc/meminfo, /proc/cpuinfo).

    Reads up to that line only: the rest of /proc/cpuinfo costs milliseconds on a large machine.
    Raises ValueError where there is no such line.
    """
    with path.open(errors="backslashreplace") as lines:  # a process may have any bytes for a name
        for line in lines:
            name, colon, value = line.partition(":")
            if colon and name.strip() == label:
                return trimmed(value)
    raise ValueError(f"{path} has no {label}")


def labelled_bytes(path: Path, label: str) -> int:
    """The bytes of a line ``label: N kB``, by which the kernel means 1024. Raises as labelled_value() does."""
    return 1024 * whole_number(labelled_value(path, label).removesuffix("kB"), path)


def read_mounts(root: Path, pid: int = 0, kind: str = "") -> list[Mount]:
    """Mounts of a process, 0 this one, in the order made: the last at a point hides those before it.

    kind: what file systems begin with that are wanted.
    """
    return [*_mounts((folder_of(root, pid) / "mountinfo").read_bytes(), kind.encode())]


@functools.lru_cache(4)  # a dozen readers of limits ask for the same
def _mounts(text: bytes, wanted: bytes) -> tuple[Mount, ...]:
    mounts = []
    for line in text.split(b"\n")[:-1]:
        before, _, after = line.partition(b" - ")
        if not after.startswith(wanted):
            continue
        fields = before.split(b" ")
        source, point = map(_path, fields[3:5])
        found, _, options = after.decode(errors="backslashreplace").split(" ", 2)
        own_options, device = (fields[at].decode(errors="backslashreplace") for at in (5, 2))
        mounts.append(Mount(source, point, found, options, own_options, device))
    return tuple(mounts)


def _path(written: bytes) -> str:
    """Spaces, tabs, line ends and backslashes are in octal digits there: proc_pid_mountinfo(5)."""
    if b"\\" not in written:
        return os.fsdecode(written)
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda digits: bytes([int(digits[1], 8)]), written))


def holding(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The mount that a path lies in: the deepest, and of those at one point the last."""
    within = [mount for mount in mounts if _lies_in(path, mount.point)]
    return max(reversed(within), key=lambda mount: len(mount.point), default=None)


def _lies_in(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def attempt(missing: dict[str, str], field: str, read: Callable[[], T]) -> T | None:
    """What ``read`` returns, or None with the reason in ``missing[field]``."""
    try:
        return read()
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0)
        missing[field] = f"{error.filename or error.strerror}: {code}" if code else f"{error}"
    except (ValueError, ArithmeticError, LookupError, PrimbenchError) as error:
        missing[field] = f"{error}"
    return None


def was_refused(reason: str) -> bool:
    """Whether what ``attempt`` noted is that this user may not: others, such as root, may be able to read it."""
    return reason.endswith((": EACCES", ": EPERM"))


def utf8(text: str) -> str:
    """What the system hands over in bytes that are no UTF-8, such as a file's name, has them escaped."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
