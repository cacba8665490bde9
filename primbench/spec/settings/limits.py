"""Settings of memory, processes, files and disks: how much of each at most."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import BackendUnavailable
from primbench.spec.setting import (
    OF_CONTAINER,
    OF_FILES,
    ON_CPU,
    WAITING,
    ContainerIngredient,
    ControlGroup,
    Setting,
    as_found,
    engines,
    entry,
    one_file,
    option,
    positive,
)
from primbench.spec.values import whole, write_size
from primbench.units import format_bytes, parse_size

if TYPE_CHECKING:
    from primbench.spec.setting import Container, Pairs, SeenByWorker

PAGE_BYTES = 65_536  # of the largest pages that a kernel counts memory in
ROOT = Path("/")
_BYTES, _COUNT = "more than 0 bytes, such as 1GiB", "at least 1, and Python needs some tens"


def _other_size(asked_bytes: int, found_bytes: int | None, seen: SeenByWorker) -> str | None:
    """What size was found, where it differs from the one asked for by a page or more: the kernel rounds to pages."""
    if found_bytes is not None and abs(asked_bytes - found_bytes) < PAGE_BYTES:
        return None
    return "no limit" if found_bytes is None else format_bytes(found_bytes)


def _is_shm(size_bytes: int, arm: Any) -> str | None:
    if arm.ipc == "host":
        return "shm with ipc=host: the host's memory is as it is; leave one out"
    return positive("shm", _BYTES)(size_bytes, arm)


def _size_shm(container: Container, size_bytes: int) -> None:
    options = container.mount("/dev/shm")["options"]
    options[:] = [*(each for each in options if not each.startswith("size=")), f"size={size_bytes}"]


def _pod_shm(spec: dict[str, Any], size_bytes: int) -> None:
    spec["containers"][0]["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size_bytes)}}]


def _other_count(asked: int, found: int | None, seen: SeenByWorker) -> str | None:
    return None if found == asked else "no limit" if found is None else f"a limit of {found}"


def _limit_files(most: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))


def _other_files(asked: int, found: int | None, seen: SeenByWorker) -> str | None:
    return None if found == asked else f"a limit of {'any number' if found is None else found}"


def _oci_files(container: Container, most: int) -> None:
    """Programs in Go raise the limit that they inherit, and hand that on."""
    container.config["process"]["rlimits"].append({"type": "RLIMIT_NOFILE", "soft": most, "hard": most})


class Disk(NamedTuple):
    """A disk of this machine."""

    number: str
    """Its number, such as "8:0", by which control groups name it."""
    path: str
    """Path of its device file."""


def disks(root: Path = ROOT) -> list[Disk]:
    """Those that stand on a device, and not on files, memory or other disks.

    Raises BackendUnavailable where there is none, and so nothing can be limited, and OSError where none are shown.
    """
    found = [folder for folder in sorted((root / "sys/block").iterdir()) if (folder / "device").exists()]
    if not found:
        raise BackendUnavailable("read-rate: no disk is shown here (/sys/block): leave it out")
    return [Disk((folder / "dev").read_text().strip(), f"/dev/{folder.name}") for folder in found]


def _oci_rates(container: Container, rate: int) -> None:
    numbers = [map(int, disk.number.split(":")) for disk in disks()]
    of_each = [{"major": major, "minor": minor, "rate": rate} for major, minor in numbers]
    container.limit("blockIO", throttleReadBpsDevice=of_each)


def _read_by_path(rate: int) -> Pairs:
    return [("--device-read-bps", f"{disk.path}:{rate}") for disk in disks()]


def _other_rate(asked: int, found: list[str], seen: SeenByWorker) -> str | None:
    return None if any(each.endswith(f"rbps={asked}") for each in found) else ", ".join(found) or "no limit"


SHM = Setting(
    "shm", "shm_bytes", int | None, "Size of /dev/shm.", "1GiB",
    parse=parse_size, write=write_size, check=_is_shm,
    options=engines(option("--shm-size", "{}b".format)), oci=_size_shm, pod=_pod_shm,
    shows=(("limits", "shm_bytes"),), unlike=_other_size, moves=("collective",),
    without=lambda arm: {"shm_bytes": None if arm.ipc == "host" else 2**30},  # ipc=host: it cannot be set
    ingredient=ContainerIngredient("ipc and small shm", None, lambda engine, room: room),
)  # fmt: skip
ROWS = (
    Setting(
        "memory", "memory_bytes", int | None, "Memory at most, files in the cache included.", "4GiB",
        parse=parse_size, write=write_size, check=positive("memory", _BYTES),
        options=engines(option("--memory", "{}b".format)) | {"apptainer": option("--memory")},
        oci=lambda container, size_bytes: container.limit("memory", limit=size_bytes),
        group=one_file("memory", "memory.limit_in_bytes", "memory.max", "MemoryMax"),
        pod=entry(*OF_CONTAINER, "resources", "limits", "memory"),
        shows=(("limits", "memory_limit_bytes"),), unlike=_other_size, unlimited=True, moves=ON_CPU,
        recorded=as_found,
    ),
    SHM,
    Setting(
        "pids", "processes_max", int | None, "Processes at most, threads counted.", "512",
        parse=whole, check=positive("pids", _COUNT),
        options=dict.fromkeys(("docker", "podman", "apptainer"), option("--pids-limit")),
        oci=lambda container, most: container.limit("pids", limit=most),
        group=one_file("pids", "pids.max", "pids.max", "TasksMax"),
        shows=(("limits", "processes_max"),), unlike=_other_count, unlimited=True, moves=(*WAITING, *OF_FILES),
        recorded=as_found,
    ),
    Setting(
        "nofile", "open_files", int | None, "Files that may be open at a time in each process.", "65536",
        parse=whole, check=positive("nofile", _COUNT),
        options=engines(option("--ulimit", "nofile={0}:{0}".format)), oci=_oci_files, process=_limit_files,
        shows=(("limits", "open_files"),), unlike=_other_files, unlimited=True, moves=OF_FILES,
        recorded=as_found,
    ),
    Setting(
        "read-rate", "read_bytes_per_s", int | None, "Bytes a second at most that are read from each disk.", "50MiB",
        parse=parse_size, write=write_size, check=positive("read-rate", _BYTES),
        options=engines(_read_by_path), oci=_oci_rates,
        group=ControlGroup(
            "blkio",
            lambda rate, root: [("blkio.throttle.read_bps_device", f"{disk.number} {rate}") for disk in disks(root)],
            lambda rate, root: [("io.max", f"{disk.number} rbps={rate}") for disk in disks(root)],
            lambda rate, root: [("IOReadBandwidthMax", f"{disk.path} {rate}") for disk in disks(root)],
        ),
        shows=(("limits", "io_limits"),), unlike=_other_rate, moves=OF_FILES,
    ),
)  # fmt: skip
