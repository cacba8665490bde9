"""crun and runc by themselves: a container from nothing but a configuration, every part of which is ours to change.

The file's form is that of the OCI runtime specification 1.0; what an arm leaves open is as Docker has it, but for the
system call filter, of which there is none unless an arm names one, and the root, of which folders are bound.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import FileError, InvalidRequest
from primbench.runtimes import engine
from primbench.runtimes.hostroot import bound_folders, caches, make_skeleton, mounted_below
from primbench.runtimes.invocation import PATH, Invocation, client, gpu_files, variables
from primbench.runtimes.mounts import binds
from primbench.runtimes.runtime import DOCKER_SHM_BYTES
from primbench.spec.arm import Arm, asked
from primbench.spec.settings.confinement import USUAL_CAPABILITIES
from primbench.system.files import holding, read_mounts, utf8
from primbench.system.inputs import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

MECHANISMS = frozenset({"oci", "image", "process", "surroundings", "overlays", "binds", "files"})

FILTERS = Path(__file__).parent / "filters"
"""The filters of Docker and Podman, each with its origin."""

_MACHINE_OF_FILTERS = "x86_64"
_MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_QUIET = ["nosuid", "noexec", "nodev"]


def found(program: str) -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, version = client(program, "--version")
    if reason is None and os.geteuid() != 0:
        reason = f"{program} needs root here"
    return reason, version


def launch(
    arm: Arm,
    folder: Path,
    command: Sequence[str],
    *,
    gpus: bool,
    always: Sequence[str] = (),
    leaving: Sequence[str] = (),
    hook: Sequence[str] = (),
) -> Invocation:
    """always: options of the runtime. leaving: those by which the worker stays in the control groups of who starts it.
    hook: the command by which it gets there again, once the container is made and before its first program.

    Raises InvalidRequest for what there is only with an engine on top, FileError for a filter that is none.
    """
    name = engine.new_name()
    if arm.on_host_root:
        tree = make_skeleton(folder)
    elif os.path.isabs(str(arm.image)) and os.path.isdir(str(arm.image)):
        tree = Path(str(arm.image))
    else:
        raise InvalidRequest(f"image={arm.image}: {arm.runtime} starts a folder, named in full, or host", arm=arm.name)
    container = made(arm, folder, tree, command, name=name, hook=hook, gpus=gpus)
    (folder / "config.json").write_bytes(msgspec.json.encode(container.config))
    program = [arm.runtime, "--root", str(folder / "state"), *always, *(leaving if container.leaves else ())]
    return Invocation(
        worker=[*program, "run", "--bundle", str(folder), name], after=[[*program, "delete", "--force", name]]
    )


def made(
    arm: Arm, folder: Path, tree: Path, command: Sequence[str], *, name: str, hook: Sequence[str], gpus: bool
) -> OfOci:
    """The container of an arm, by its settings one after the other. folder: the launch's. tree: the root.

    Raises as ``launch`` does.
    """
    environment = [f"{key}={value}" for key, value in ({"PATH": PATH} | variables(arm, folder)).items()]
    config = _plain(name, command, environment, gpu_files() if gpus else [])
    config["root"] = {"path": str(tree), "readonly": not arm.on_host_root}
    if not arm.on_host_root:
        config["mounts"].append(_mount("/tmp", "tmpfs", ["nosuid", "nodev", "mode=1777"]))
    found = OfOci(arm, config, {f"CAP_{each}" for each in USUAL_CAPABILITIES})
    at = len(config["mounts"])  # before those of the arm's own
    _set(found)
    shown = _of_the_host(arm, folder, is_overlay=found.is_overlay) if arm.on_host_root else []
    shown += [
        _mount(each.target, "bind", ["rbind", "ro" if each.is_read_only else "rw"], each.source)
        for each in binds(arm, folder)
    ]
    config["mounts"][at:at] = shown
    held = sorted(found.capabilities)
    config["process"]["capabilities"] = dict.fromkeys(("bounding", "effective", "permitted"), held)
    if found.leaves and hook:
        config["hooks"] = {"createRuntime": [{"path": hook[0], "args": hook, "env": environment}]}
    return found


def _set(container: OfOci) -> None:
    """What the arm asks for, one setting after the other."""
    for row, value in asked(container.arm, "oci"):
        assert row.oci is not None
        try:
            row.oci(container, value)
        except (InvalidRequest, FileError) as error:
            raise type(error)(f"{row.said(value)}: {error}", arm=container.arm.name) from None


def _plain(name: str, command: Sequence[str], environment: list[str], device_files: Sequence[str]) -> dict[str, Any]:
    """What config.json holds where nothing is asked for."""
    devices = [_device(path) for path in device_files]
    allowed = [
        {"allow": True, "type": "c", "major": each["major"], "minor": each["minor"], "access": "rwm"}
        for each in devices
    ]
    return {
        "ociVersion": "1.0.2",
        "hostname": name,
        "mounts": [
            _mount("/proc", "proc", _QUIET),
            _mount("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
            _mount("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
            _mount("/dev/mqueue", "mqueue", _QUIET),
            _mount("/sys", "sysfs", [*_QUIET, "ro"]),
            _mount("/sys/fs/cgroup", "cgroup", [*_QUIET, "relatime", "ro"]),
            _mount("/dev/shm", "tmpfs", [*_QUIET, "mode=1777", f"size={DOCKER_SHM_BYTES}"]),
        ],
        "hooks": {},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [*command],
            "cwd": "/",
            "env": environment,
            "noNewPrivileges": False,
            "rlimits": [],
        },
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "uts", "network", "ipc")],
            "devices": devices,
            "resources": {"devices": [{"allow": False, "access": "rwm"}, *allowed], "cpu": {}},
            "cgroupsPath": f"/{name}",
            "maskedPaths": _MASKED,
            "readonlyPaths": _READ_ONLY,
        },
    }


@dataclasses.dataclass
class OfOci:
    """As ``Container`` has it."""

    arm: Arm
    config: dict[str, Any]
    capabilities: set[str]
    is_overlay: bool = False
    leaves: bool = False
    """Whether the worker is to stay in the control groups of who starts it."""

    def limit(self, resource: str, **amounts: object) -> None:
        self.config["linux"]["resources"].setdefault(resource, {}).update(amounts)

    def share(self, namespace: str, *folders: str) -> None:
        """It gets no such namespace of its own, and sees what this machine has in the folders."""
        self.config["linux"]["namespaces"].remove({"type": namespace})
        for folder in folders:
            self.mount(folder).update(_bind(folder, "rw"))

    def mount(self, point: str) -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.config["mounts"] if each["destination"] == point)
        return found

    def filter_by(self, name: str) -> None:
        if name != "unconfined":
            self.config["linux"]["seccomp"] = _filter(self.arm, name)

    def leave_groups(self) -> None:
        if any(asked(self.arm, "group")):
            raise InvalidRequest("limits need a control group of its own: leave it out")
        self.mount("/sys/fs/cgroup").update(_bind("/sys/fs/cgroup", "ro"))
        self.leaves = True


def _of_the_host(arm: Arm, folder: Path, *, is_overlay: bool) -> list[dict[str, Any]]:
    """Mounts of a container on the host's root: its folders and what is mounted in them, and a writable cache."""
    folders = bound_folders()
    below = mounted_below(folders)
    _check_names(arm, [*folders, *below])
    shown = _overlays(folder, folders) if is_overlay else [_bind(str(each), "ro") for each in folders]
    return [*shown, *(_bind(str(each), "ro") for each in below), _bind(str(caches(folder)), "rw")]


def _check_names(arm: Arm, points: Sequence[Path]) -> None:
    """JSON has no place for bytes that are no UTF-8."""
    for point in map(str, points):
        if utf8(point) != point:
            raise InvalidRequest(f"{arm.runtime} cannot bind {utf8(point)}, for its name: unmount it", arm=arm.name)


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


def _device(path: str) -> dict[str, Any]:
    number = os.stat(path).st_rdev
    return {"path": path, "type": "c", "major": os.major(number), "minor": os.minor(number), "fileMode": 0o666}


def filters() -> list[str]:
    """Names of the filters that there are for an arm."""
    return sorted(each.stem for each in FILTERS.glob("*.json"))


def _filter(arm: Arm, name: str) -> Any:
    """The section ``seccomp`` of a configuration, which is not the form in which Docker keeps its profiles."""
    known = filters()
    if name == "default":
        raise InvalidRequest(f"{arm.runtime} brings no filter: name a file that holds one, or {' or '.join(known)}")
    if name not in known:
        return _section(_read(Path(name)))
    if platform.machine() != _MACHINE_OF_FILTERS:
        raise InvalidRequest(f"known for {_MACHINE_OF_FILTERS} alone: name a file that holds one")
    return _section(_read(FILTERS / f"{name}.json")["seccomp"])


def _read(path: Path) -> Any:
    try:
        with opened(path) as file:
            return msgspec.json.decode(file.read())
    except OSError as error:
        raise FileError(str(error.strerror)) from None
    except msgspec.DecodeError as error:
        raise FileError(str(error)) from None


def _section(held: Any) -> Any:
    if not isinstance(held, dict) or "defaultAction" not in held or "archMap" in held:
        raise FileError("not the section seccomp of an OCI configuration")
    return held
