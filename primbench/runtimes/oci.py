"""crun and runc by themselves: a container from nothing but a configuration, every part of which is ours to change.

The file's form is that of the OCI runtime specification 1.0; what an arm leaves open is as Docker has it, but for the
system call filter, of which there is none unless an arm names one, and the root, of which folders are bound.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import FileError, InvalidRequest
from primbench.runtimes import engine, inherited, limits
from primbench.runtimes.hostroot import bound_folders, caches, make_skeleton, mounted_below
from primbench.runtimes.invocation import PATH, Invocation, answer, gpu_files, variables, version
from primbench.runtimes.limits import PERIOD_US, read_rates, shares
from primbench.runtimes.mounts import overlays
from primbench.runtimes.runtime import DOCKER_SHM_BYTES
from primbench.spec.arm import Arm, settings_of
from primbench.system.capabilities import capabilities
from primbench.system.files import format_cpu_list, holding, read_mounts, utf8
from primbench.system.inputs import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.system.disks import Disk

SETTINGS = engine.SETTINGS | inherited.SETTINGS | {"cgroup", "root", "no_new_privileges"}

FILTERS = Path(__file__).parent / "filters"
"""The filters of Docker and Podman, each with its origin."""

_MACHINE_OF_FILTERS = "x86_64"
_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
_MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_QUIET = ["nosuid", "noexec", "nodev"]


def found(program: str) -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer([program, "--version"])
    if reason is None and os.geteuid() != 0:
        reason = f"{program} needs root here"
    return reason, version(line)


def launch(
    arm: Arm,
    folder: Path,
    command: Sequence[str],
    *,
    gpus: bool,
    options: Sequence[str] = (),
    on_create: Sequence[str] = (),
) -> Invocation:
    """options: of the runtime. on_create: a command that it runs once the container is made, before the first program.

    Raises InvalidRequest for what there is only with an engine on top, FileError for a filter that is none.
    """
    name = engine.new_name()
    if arm.on_host_root:
        tree = make_skeleton(folder)
    elif os.path.isabs(str(arm.image)) and os.path.isdir(str(arm.image)):
        tree = Path(str(arm.image))
    else:
        raise InvalidRequest(
            f"arm {arm.name}: image={arm.image}: {arm.runtime} starts a folder, named in full, or host"
        )
    (folder / "config.json").write_bytes(
        msgspec.json.encode(configuration(arm, folder, tree, command, name=name, on_create=on_create, gpus=gpus))
    )
    program = [arm.runtime, "--root", str(folder / "state"), *options]
    return Invocation(
        worker=[*program, "run", "--bundle", str(folder), name], after=[[*program, "delete", "--force", name]]
    )


def configuration(
    arm: Arm, folder: Path, tree: Path, command: Sequence[str], *, name: str, on_create: Sequence[str], gpus: bool
) -> dict[str, Any]:
    """What config.json holds. folder: the launch's. tree: the root. Raises as ``launch`` does."""
    _check(arm)
    linux = _linux(arm, name, gpu_files() if gpus else [])
    environment = [f"{key}={value}" for key, value in ({"PATH": PATH} | variables(arm, folder)).items()]
    return {
        "ociVersion": "1.0.2",
        "hostname": name,
        "root": {"path": str(tree), "readonly": not arm.on_host_root},
        "mounts": _mounts(arm, folder),
        "hooks": _hooks(on_create, environment),
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [*command],
            "cwd": "/",
            "env": environment,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _capabilities(arm)),
            "noNewPrivileges": arm.no_new_privileges == "yes",
            "rlimits": _open_files(arm),
        },
        "linux": linux,
    }


def _check(arm: Arm) -> None:
    if arm.network == "private":
        raise InvalidRequest(f"arm {arm.name}: network=private: {arm.runtime} sets up no network: use none or host")
    if arm.cgroup == "host" and limits.SETTINGS & settings_of(arm).keys():
        raise InvalidRequest(f"arm {arm.name}: cgroup=host: limits need a control group of its own: leave it out")
    if arm.root == "overlay" and not arm.on_host_root:
        raise InvalidRequest(f"arm {arm.name}: root=overlay: of the host's files alone: leave out image={arm.image}")


def _linux(arm: Arm, name: str, device_files: Sequence[str]) -> dict[str, Any]:
    """The part that only Linux has."""
    separate = ["pid", "mount", "uts"]
    separate += [] if arm.network == "host" else ["network"]
    separate += [] if arm.ipc == "host" else ["ipc"]
    devices = [_device(path) for path in device_files]
    found: dict[str, Any] = {
        "namespaces": [{"type": kind} for kind in separate],
        "devices": devices,
        "resources": _resources(arm, devices),
        "cgroupsPath": f"/{name}",
        "maskedPaths": _MASKED,
        "readonlyPaths": _READ_ONLY,
    }
    if arm.seccomp not in (None, "unconfined"):
        found["seccomp"] = _filter(arm)
    return found


def _hooks(on_create: Sequence[str], environment: list[str]) -> dict[str, Any]:
    if not on_create:
        return {}
    return {"createRuntime": [{"path": on_create[0], "args": on_create, "env": environment}]}


def _capabilities(arm: Arm) -> list[str]:
    """The capabilities of an arm, combined as Docker does: ALL is added or dropped first, then single ones."""
    held = {f"CAP_{each}" for each in _CAPABILITIES}
    if "ALL" in arm.cap_add:
        held = {*capabilities(Path("/"))}
    if "ALL" in arm.cap_drop:
        held = set()
    added, dropped = ({f"CAP_{each}" for each in named if each != "ALL"} for named in (arm.cap_add, arm.cap_drop))
    return sorted((held | added) - dropped)


def _open_files(arm: Arm) -> list[dict[str, Any]]:
    """Programs in Go raise the limit that they inherit, and hand that on."""
    limit = arm.open_files
    return [] if limit is None else [{"type": "RLIMIT_NOFILE", "soft": limit, "hard": limit}]


def _mounts(arm: Arm, folder: Path) -> list[dict[str, Any]]:
    shm = _mount("/dev/shm", "tmpfs", [*_QUIET, "mode=1777", f"size={arm.shm_bytes or DOCKER_SHM_BYTES}"])
    if arm.ipc == "host":
        shm = _bind("/dev/shm", "rw")
    groups = _mount("/sys/fs/cgroup", "cgroup", [*_QUIET, "relatime", "ro"])
    if arm.cgroup == "host":
        groups = _bind("/sys/fs/cgroup", "ro")
    return [
        _mount("/proc", "proc", _QUIET),
        _mount("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        _mount("/dev/mqueue", "mqueue", _QUIET),
        _mount("/sys", "sysfs", [*_QUIET, "ro"]),
        groups,
        *([] if arm.on_host_root else [_mount("/tmp", "tmpfs", ["nosuid", "nodev", "mode=1777"])]),
        shm,
        *(_of_the_host(arm, folder) if arm.on_host_root else []),
        *(_mount(path, "bind", ["rbind", "rw"], merged) for merged, path in overlays(arm, folder)),
        *(_mount(path, "tmpfs", ["nosuid", "nodev", "mode=1777"]) for path in arm.tmpfs),
    ]


def _of_the_host(arm: Arm, folder: Path) -> list[dict[str, Any]]:
    """Mounts of a container on the host's root: its folders and what is mounted in them, and a writable cache."""
    folders = bound_folders()
    below = mounted_below(folders)
    _check_names(arm, [*folders, *below])
    shown = _overlays(folder, folders) if arm.root == "overlay" else [_bind(str(each), "ro") for each in folders]
    return [*shown, *(_bind(str(each), "ro") for each in below), _bind(str(caches(folder)), "rw")]


def _check_names(arm: Arm, points: Sequence[Path]) -> None:
    """JSON has no place for bytes that are no UTF-8."""
    for point in map(str, points):
        if utf8(point) != point:
            raise InvalidRequest(f"arm {arm.name}: {arm.runtime} cannot bind {utf8(point)}, for its name: unmount it")


def _overlays(folder: Path, lower: Sequence[Path]) -> list[dict[str, Any]]:
    """The host's folders over an empty one, which needs no place to write to: the binds are read-only, too.

    An overlay holds nothing of what is mounted further down, such as a driver's libraries: only a bind does. What is
    written to /tmp goes to an upper layer, as in an engine's container; none can lie on another overlay.
    """
    empty, upper, work = (folder / name for name in ("empty", "upper", "work"))
    for each in (empty, upper, work):
        each.mkdir()
    upper.chmod(0o1777)
    found = [_mount(str(each), "overlay", ["ro", f"lowerdir={each}:{empty}"]) for each in lower]
    below = holding(read_mounts(Path("/")), str(folder))
    if below is None or below.kind == "overlay":
        return found
    written = _mount("/tmp", "overlay", [f"lowerdir={empty}", f"upperdir={upper}", f"workdir={work}"])
    return [written, *found]  # before the folders of the host that lie in /tmp, which it would hide


def _bind(point: str, how: str) -> dict[str, Any]:
    return _mount(point, "bind", ["rbind", how], point)


def _mount(point: str, kind: str, options: list[str], source: str | None = None) -> dict[str, Any]:
    return {"destination": point, "type": kind, "source": source or kind, "options": options}


def _resources(arm: Arm, devices: list[dict[str, Any]]) -> dict[str, Any]:
    cpu: dict[str, Any] = {}
    if arm.cpus is not None:
        cpu |= {"quota": round(arm.cpus * PERIOD_US), "period": PERIOD_US}
    if arm.cpu_weight is not None:
        cpu["shares"] = shares(arm.cpu_weight)
    if arm.cpuset is not None:
        cpu["cpus"] = format_cpu_list(arm.cpuset)
    if arm.mems is not None:
        cpu["mems"] = format_cpu_list(arm.mems)
    allowed = [
        {"allow": True, "type": "c", "major": each["major"], "minor": each["minor"], "access": "rwm"}
        for each in devices
    ]
    found: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}, *allowed], "cpu": cpu}
    if arm.memory_bytes is not None:
        found["memory"] = {"limit": arm.memory_bytes}
    if arm.processes_max is not None:
        found["pids"] = {"limit": arm.processes_max}
    if rates := read_rates(arm):
        found["blockIO"] = {"throttleReadBpsDevice": [_rate(disk, rate) for disk, rate in rates]}
    return found


def _rate(disk: Disk, bytes_per_s: int) -> dict[str, int]:
    major, minor = disk.number.split(":")
    return {"major": int(major), "minor": int(minor), "rate": bytes_per_s}


def _device(path: str) -> dict[str, Any]:
    number = os.stat(path).st_rdev
    return {"path": path, "type": "c", "major": os.major(number), "minor": os.minor(number), "fileMode": 0o666}


def filters() -> list[str]:
    """Names of the filters that there are for an arm."""
    return sorted(each.stem for each in FILTERS.glob("*.json"))


def names_a_file(seccomp: str | None) -> bool:
    """Whether the filter that an arm names is a file of somebody's own."""
    return seccomp not in (None, "default", "unconfined", *filters())


def _filter(arm: Arm) -> Any:
    """The section ``seccomp`` of a configuration, which is not the form in which Docker keeps its profiles."""
    known = filters()
    if arm.seccomp == "default":
        raise InvalidRequest(
            f"arm {arm.name}: seccomp=default: {arm.runtime} brings no filter: name a file that holds one, or "
            f"{' or '.join(known)}"
        )
    if arm.seccomp not in known:
        return _section(arm, _read(arm, Path(str(arm.seccomp))))
    if platform.machine() != _MACHINE_OF_FILTERS:
        raise InvalidRequest(
            f"arm {arm.name}: seccomp={arm.seccomp}: known for {_MACHINE_OF_FILTERS} alone: name a file that holds one"
        )
    return _section(arm, _read(arm, FILTERS / f"{arm.seccomp}.json")["seccomp"])


def _read(arm: Arm, path: Path) -> Any:
    try:
        with opened(path) as file:
            return msgspec.json.decode(file.read())
    except OSError as error:
        raise FileError(f"arm {arm.name}: seccomp={arm.seccomp}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise FileError(f"arm {arm.name}: seccomp={arm.seccomp}: {error}") from None


def _section(arm: Arm, held: Any) -> Any:
    if not isinstance(held, dict) or "defaultAction" not in held or "archMap" in held:
        raise FileError(f"arm {arm.name}: seccomp={arm.seccomp}: not the section seccomp of an OCI configuration")
    return held
