"""Settings of what stands between a process and the kernel: filters, capabilities, namespaces, privileges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_CONTAINER, OF_FILES, ON_CPU, ContainerIngredient, Setting, engines, entry, option
from primbench.spec.settings.limits import SHM
from primbench.spec.values import OneOf, names, write_names
from primbench.system.capabilities import CAPABILITIES, capabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.spec.setting import Container, Pairs, SeenByWorker

USUAL_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""Those that Docker gives a container, and so crun and runc do here."""
_GIVE_USUAL = ("docker", "crun", "runc")
_NOT_HEEDED = "what started primbench may have it already, or {runtime} does not heed it: leave {key} out"
_ANOTHER_USER = "an image that runs as another user than root, or {runtime} without root, holds others"
_NOT_ALLOWED = "{runtime} stands in another place, or was not allowed to: leave {key} out, or be root"
_OF_ENGINES = ("docker", "podman")  # filters that are here
_ALLOWED = ("private", "none", "host")
_is_host = "host".__eq__


def names_a_file(seccomp: str | None) -> bool:
    """Whether the filter that an arm names is a file of somebody's own."""
    return seccomp not in (None, "default", "unconfined", *_OF_ENGINES)


def _filter_option(name: str) -> Callable[[str], Pairs]:
    return lambda seccomp: [("--security-opt", None if seccomp == "default" else f"{name}={seccomp}")]


def _apptainer_filter(seccomp: str) -> Pairs:
    """It has no system call filter of its own, so that only a file adds one."""
    return [("--security", None if seccomp in ("default", "unconfined") else f"seccomp:{seccomp}")]


def _pod_filter(seccomp: str) -> dict[str, str]:
    of_cluster = {"default": "RuntimeDefault", "unconfined": "Unconfined"}.get(seccomp)
    return {"type": of_cluster} if of_cluster else {"type": "Localhost", "localhostProfile": seccomp}


def _other_filter(asked: str, found: str, seen: SeenByWorker) -> str | None:
    """Beyond the filters of who starts it. A runtime's own default may be any, none included."""
    if asked == "default":
        return None
    filters_there = seen.there("confinement", "seccomp_filters")
    adds_none = found == "disabled" or (filters_there is not None and filters_there == seen.here("seccomp_filters"))
    if asked == "unconfined":
        return None if adds_none or seen.arm.is_far else "a filter"
    return "no filter of it" if adds_none else None


def _capabilities(text: str) -> tuple[str, ...]:
    return tuple(name.upper().removeprefix("CAP_") for name in names(text))


def _are_capabilities(found: tuple[str, ...], arm: Any) -> str | None:
    wrong = [each for each in found if each not in (*CAPABILITIES, "ALL")]
    return f"capability {wrong[0]!r}: Linux has none of that name: see capabilities(7), as SYS_NICE" if wrong else None


def _each(option: str) -> Callable[[tuple[str, ...]], Pairs]:
    return lambda found: [(option, name) for name in found]


def _joined(option: str) -> Callable[[tuple[str, ...]], Pairs]:
    return lambda found: [(option, ",".join(f"CAP_{name}" for name in found))]


def _single(found: tuple[str, ...]) -> set[str]:
    return {f"CAP_{name}" for name in found if name != "ALL"}


def _added_one_by_one(added: tuple[str, ...], arm: Any) -> tuple[str, ...]:
    """Of ALL each that is not there anyway."""
    if "ALL" not in added:
        return added
    there = {*arm.cap_drop, *(USUAL_CAPABILITIES if arm.runtime in _GIVE_USUAL else ())}
    return tuple(name for name in _possible() if name not in there)


def _dropped_one_by_one(dropped: tuple[str, ...], arm: Any) -> tuple[str, ...]:
    """Of ALL each that is there otherwise."""
    if "ALL" not in dropped:
        return dropped
    every = USUAL_CAPABILITIES if arm.runtime in _GIVE_USUAL and "ALL" not in arm.cap_add else _possible()
    return tuple(name for name in every if name not in arm.cap_add)


def _possible() -> list[str]:
    """What ALL is, of those who are not root, too."""
    return [name.removeprefix("CAP_") for name in capabilities(Path("/"), kept="CapBnd")]


def _add(container: Container, added: tuple[str, ...]) -> None:
    """As Docker does: ALL is added or dropped first, then single ones."""
    container.capabilities |= _single((*(_possible() if "ALL" in added else ()), *added))


def _drop(container: Container, dropped: tuple[str, ...]) -> None:
    if "ALL" in dropped:
        container.capabilities &= _single(container.arm.cap_add)
    container.capabilities -= _single(dropped)


def _absent(asked: tuple[str, ...], held: list[str], seen: SeenByWorker) -> str | None:
    """Which capabilities asked for are absent; of ALL, another set in each runtime, any one will do."""
    absent = [name for name in asked if name not in ("ALL", *seen.arm.cap_drop) and f"CAP_{name}" not in held]
    return f"no {' nor '.join(absent or asked)}" if absent or not held else None


def _left(asked: tuple[str, ...], found: list[str], seen: SeenByWorker) -> str | None:
    held, added = {name.removeprefix("CAP_") for name in found}, seen.arm.cap_add
    dropped = held if "ALL" in asked else held & set(asked)
    left = sorted(dropped - set(added)) if "ALL" not in added else []
    return f"{', '.join(left)} left" if left else None


def _other_namespace(kind: str) -> Callable[[str, str, SeenByWorker], str | None]:
    def unlike(asked: str, inside: str, seen: SeenByWorker) -> str | None:
        ours = (seen.here("namespaces") or {}).get(kind)
        if ours is None or (inside == ours) == (asked == "host"):
            return None
        return f"this machine's {kind} namespace" if inside == ours else f"a {kind} namespace that is not the one here"

    return unlike


def _network_of_host(arm: Any) -> dict[str, Any]:
    """Nothing of what starts on a host, which has it: what took itself out of it by a program of its own still does."""
    return {} if arm.ends_on_host and arm.network is None else {"network": "host"}


def _oci_network(container: Container, network: str) -> None:
    if network == "private":
        raise InvalidRequest(f"{container.arm.runtime} sets up no network: use none or host")
    if network == "host":
        container.share("network")


def _oci_ipc(container: Container, ipc: str) -> None:
    if ipc == "host":
        container.share("ipc", "/dev/shm")


def _oci_cgroup(container: Container, cgroup: str) -> None:
    if cgroup == "host":
        container.leave_groups()


def _oci_privileges(container: Container, denied: str) -> None:
    container.config["process"]["noNewPrivileges"] = denied == "yes"


FILTER = Setting(
    "seccomp", "seccomp", str | None,
    "Filter of system calls: default, unconfined or a profile's file; with crun and runc docker and podman are the "
    "filters of those.", "unconfined",
    options=engines(_filter_option("seccomp")) | {"apptainer": _apptainer_filter},
    oci=lambda container, name: container.filter_by(name),
    pod=entry(*OF_CONTAINER, "securityContext", "seccompProfile", write=_pod_filter),
    shows=(
        ("confinement", "seccomp"), ("confinement", "seccomp_filters"), ("confinement", "io_uring"),
        ("confinement", "speculation_store_bypass"), ("confinement", "speculation_indirect_branch"),
    ),
    unlike=_other_filter, mend=_NOT_HEEDED,
    moves=ON_CPU, without=lambda arm: {"seccomp": "unconfined"},
    ingredient=ContainerIngredient("seccomp", "unconfined", lambda engine, room: engine),
    programs=names_a_file,
)  # fmt: skip
ROWS = (
    FILTER,
    Setting(
        "cap-add", "cap_add", tuple[str, ...], "Capabilities beyond those that the runtime gives; ALL is all of them.",
        "SYS_NICE+SYS_PTRACE", parse=_capabilities, write=write_names, default=(), check=_are_capabilities,
        options=engines(_each("--cap-add")) | {"apptainer": _joined("--add-caps")},
        oci=_add, pod=entry(*OF_CONTAINER, "securityContext", "capabilities", "add", write=list),
        shows=(("confinement", "set_mempolicy"), ("confinement", "mbind")), fact=("confinement", "capabilities"),
        unlike=_absent, mend=_ANOTHER_USER,
        moves=("copy", "everything on the CPU"),
        without=lambda arm: {"cap_add": tuple(dict.fromkeys((*arm.cap_add, "SYS_NICE")))},
        ingredient=ContainerIngredient("fewer capabilities", ("ALL",), lambda engine, room: (), {"apptainer": ()}),
        one_by_one=_added_one_by_one,
    ),
    Setting(
        "cap-drop", "cap_drop", tuple[str, ...], "Capabilities that the runtime would give; ALL is all of them.", "ALL",
        parse=_capabilities, write=write_names, default=(), check=_are_capabilities,
        options=engines(_each("--cap-drop")) | {"apptainer": _joined("--drop-caps")},
        oci=_drop, pod=entry(*OF_CONTAINER, "securityContext", "capabilities", "drop", write=list),
        fact=("confinement", "capabilities"), unlike=_left, mend=_ANOTHER_USER, one_by_one=_dropped_one_by_one,
        moves=("copy", "everything on the CPU", *OF_FILES),
        ingredient=ContainerIngredient("fewer capabilities", (), lambda engine, room: (), {"apptainer": ("ALL",)}),
    ),
    Setting(
        "network", "network", Literal["private", "host", "none", "overlay"] | None,
        "Network: private, none or host; on the host itself private or overlay is between ranks.", "none",
        parse=OneOf("private", "host", "none", "overlay"),
        options={
            "docker": lambda network: [("--network", "bridge" if network == "private" else network)],
            "podman": option("--network"),
            "runsc": option("--network"),
            "apptainer": lambda network: [
                ("--net", network != "host"), ("--network", "none" if network == "none" else None),
            ],
        },
        oci=_oci_network, pod=entry("hostNetwork", write=_is_host), seen_to=("ranks",),
        values=dict.fromkeys(("docker", "podman", "apptainer", "oci"), _ALLOWED)
        | {"ranks": ("private", "overlay", "host"), "pod": ("private", "host")},
        shows=(("confinement", "namespaces", "net"),), unlike=_other_namespace("net"), mend=_NOT_ALLOWED,
        moves=("collective",), without=_network_of_host,
        ingredient=ContainerIngredient("network", "host", lambda engine, room: "none"),
    ),
    Setting(
        "ipc", "ipc", Literal["private", "host"] | None, "Namespace of System V IPC and /dev/shm: private or host.",
        "host", parse=OneOf("private", "host"),
        options=engines(option("--ipc")) | {"apptainer": option("--ipc", "private".__eq__)},
        oci=_oci_ipc, pod=entry("hostIPC", write=_is_host),
        shows=(("confinement", "namespaces", "ipc"),), unlike=_other_namespace("ipc"), mend=_NOT_ALLOWED,
        moves=("collective",), without=lambda arm: {"ipc": "host", SHM.field: None},
        ingredient=ContainerIngredient("ipc and small shm", "host", lambda engine, room: "private"),
    ),
    Setting(
        "cgroup", "cgroup", Literal["private", "host"] | None,
        "Control groups: private, of its own; or host, those of who starts the worker.", "host",
        parse=OneOf("private", "host"), oci=_oci_cgroup, seen_to=("groups",),
        ingredient=ContainerIngredient("control group", "host", lambda engine, room: "private"),
    ),
)  # fmt: skip
LAST = (
    Setting(
        "no-new-privileges", "no_new_privileges", Literal["yes", "no"] | None,
        "Whether a program is denied more than whoever starts it has.", "yes", parse=OneOf("yes", "no"),
        oci=_oci_privileges,
        fact=("confinement", "no_new_privileges"),
        unlike=lambda asked, found, seen: None if found == (asked == "yes") else "yes" if found else "no",
        mend=_NOT_HEEDED,
        ingredient=ContainerIngredient("no new privileges", "no", lambda engine, room: "no", {"apptainer": "yes"}),
    ),
)  # fmt: skip
