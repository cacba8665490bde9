"""Which container runtime a process is in, by evidence that a stray marker file cannot fake."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from primbench.runtimes.runtime import Signs
from primbench.runtimes.table import known
from primbench.system.files import Mount, attempt, read_mounts, utf8
from primbench.system.meaning import Fact
from primbench.system.namespaces import FIRST_NAMESPACES
from primbench.system.processes import environ_of, folder_of, root_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_FIRST_PID, _FIRST_USER = FIRST_NAMESPACES["pid"], FIRST_NAMESPACES["user"]


_FIRST_MOUNT = "mnt:[4026531832]"  # since Linux 6.18; any number before


# What runtimes write for each container.
_WRITTEN = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv")


# Of those that no arm can name. "" is a container whose runtime cannot be told.
_OTHERS = {
    "singularity": Signs(variables=("SINGULARITY_NAME", "SINGULARITY_CONTAINER"), root=r"/singularity/mnt/session"),
    "containerd": Signs(
        group=r"/(cri-containerd|nerdctl)-[0-9a-f]{64}",
        source=r"/io\.containerd\.grpc\.v1\.cri/sandboxes/|/nerdctl/[0-9a-f]+/",
    ),
    "cri-o": Signs(group=r"/crio-[0-9a-f]{64}"),
    "lxc": Signs(is_value=True, group=r"/(lxc\.payload\.|lxc/)[^/]+"),
    "systemd-nspawn": Signs(is_value=True, marker="run/host/container-manager"),
    "": Signs(group=r"/kubepods", source=r"/pods/[0-9a-f-]{36}/etc-hosts"),
}


@functools.cache
def _signs() -> dict[str, Signs]:
    return {name: runtime.signs for name, runtime in known().items()} | _OTHERS


class ContainerRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The container runtime that a process is in, as far as the evidence tells."""

    # fmt: off
    name: Annotated[str | None, Fact(
        "Of those that an arm may name and some others, such as podman, or host; none where the evidence contradicts "
        "itself or only says that this is some container.", rule="runtime", layer="confinement")]
    in_container: Annotated[bool | None, Fact("Whether it is a container, if that is known.", layer="confinement")]
    evidence: Annotated[list[str], Fact("What was seen and in what file or variable, the strongest first.")]
    # fmt: on


class _Clue(NamedTuple):
    """A sign of a container."""

    name: str
    """The runtime's; "" where the sign does not tell which."""
    words: str
    """What was seen, and where."""


class _Evidence(NamedTuple):
    """All that is seen."""

    inherited: list[_Clue]
    """Signs by a launcher and by variables, which processes inherit."""
    kernel: list[_Clue]
    """Signs by control groups and mounts."""
    markers: list[_Clue]
    """Signs by marker files."""
    apart: list[str]
    """That this is another mount namespace than the launcher's, in words; [] where it is not, or nobody knows."""
    foreign: list[str]
    """That what is mounted on / is none of a machine, in words."""
    signs: list[str]
    """That namespaces are not the machine's first, in words."""
    unread: list[str]
    """Why something could not be seen."""
    is_first: bool
    """Whether the process and the mount namespace are the machine's first."""
    has_own_processes: bool
    """Whether its process namespace is known, and is not the machine's first."""

    @property
    def words(self) -> list[str]:
        """All evidence but the marker files, in words, the strongest first."""
        return [*self.apart, *_words(self.inherited + self.kernel), *self.foreign, *self.signs, *self.unread]

    @property
    def is_contained(self) -> bool:
        """Whether the kernel itself says that this is a container."""
        return bool(self.apart or self.kernel or (self.foreign and self.signs))


def detect(root: Path = Path("/"), pid: int = 0, variables: Mapping[str, str] | None = None) -> ContainerRuntime:
    """The runtime by what a launcher handed in, variables, the kernel's files, and marker files, in this order.

    Variables are inherited and files are copied, so that what the kernel says of namespaces, control groups and mounts
    decides where these contradict it. root: of /proc and marker files. variables: where
    they are not its own. pid: of the process, 0 this one. Of another process it raises what its variables raise.
    """
    return _decided(_seen(root, pid, environ_of(root, pid) if variables is None else variables))


def _seen(root: Path, pid: int, variables: Mapping[str, str]) -> _Evidence:
    unread: dict[str, str] = {}
    links = _links(root, pid)
    mounts = attempt(unread, "mounts", lambda: _mounts(root, pid)) or []
    groups = attempt(unread, "groups", lambda: _groups(root, pid)) or []
    launcher, apart = _by_launcher(variables, links.get("self/mnt"))
    return _Evidence(
        inherited=launcher + _by_variables(variables),
        kernel=groups + _by_mounts(mounts),
        markers=_markers(root_of(root, pid)),
        apart=apart,
        foreign=_foreign_root(mounts),
        signs=_namespaces(links),
        unread=[*unread.values()],
        is_first=_is_first(links),
        has_own_processes=links.get("self/pid") not in (None, _FIRST_PID),
    )


def _decided(seen: _Evidence) -> ContainerRuntime:
    if seen.is_first:
        proof = "/proc/self/ns: the first process and mount namespaces of the machine"
        return _host(proof, seen.inherited + seen.kernel + seen.markers)
    if any(clue.name for clue in seen.inherited + seen.kernel):
        return _named(seen)
    if seen.is_contained:
        return ContainerRuntime(name=_marked(seen), in_container=True, evidence=seen.words + _words(seen.markers))
    if seen.words:
        return ContainerRuntime(name=None, in_container=None, evidence=seen.words + _words(seen.markers))
    return _host("no container's variable, control group, mount or namespace", seen.markers)


def _named(seen: _Evidence) -> ContainerRuntime:
    """The verdict where variables, control groups or mounts name a runtime; several names contradict."""
    names = sorted({clue.name for clue in seen.inherited + seen.kernel if clue.name})
    if len(names) > 1:
        nested = f"contradictory or nested: {', '.join(names)}"
        return ContainerRuntime(name=None, in_container=seen.is_contained or None, evidence=[*seen.words, nested])
    if seen.is_contained or seen.foreign or seen.signs:
        return ContainerRuntime(name=names[0], in_container=True, evidence=seen.words)
    return ContainerRuntime(name=None, in_container=None, evidence=[*seen.words, "nothing else here is a container's"])


def _marked(seen: _Evidence) -> str | None:
    """The runtime that left a marker file, where that can be of this container alone."""
    names = {clue.name for clue in seen.markers if seen.foreign and seen.has_own_processes and not seen.kernel}
    return names.pop() if len(names) == 1 else None


def _host(proof: str, against: Iterable[_Clue]) -> ContainerRuntime:
    return ContainerRuntime(
        name="host", in_container=False, evidence=[proof, *(f"left over: {words}" for words in _words(against))]
    )


def _words(clues: Iterable[_Clue]) -> list[str]:
    return list(dict.fromkeys(clue.words for clue in clues))


def _links(root: Path, pid: int) -> dict[str, str]:
    """Namespaces of the process and, where readable, of process 1: "self/mnt" -> "mnt:[4026531832]"."""
    found: dict[str, str] = {}
    for name in ("self/mnt", "self/pid", "self/user", "1/mnt"):
        process, kind = name.split("/")
        link = attempt({}, name, (folder_of(root, pid if process == "self" else 1) / "ns" / kind).readlink)
        if link is not None:
            found[name] = str(link)
    return found


def _is_first(links: Mapping[str, str]) -> bool:
    """Whether these are the namespaces that the machine started with: then no runtime stands between."""
    mount = links.get("self/mnt")
    return links.get("self/pid") == _FIRST_PID and mount is not None and mount in (_FIRST_MOUNT, links.get("1/mnt"))


def _namespaces(links: Mapping[str, str]) -> list[str]:
    """Which namespaces are not the machine's first, in words: containers have such, and some other programs."""
    signs = []
    if links.get("self/pid", _FIRST_PID) != _FIRST_PID:
        signs.append("/proc/self/ns/pid: not the machine's first")
    if links.get("self/user", _FIRST_USER) != _FIRST_USER:
        signs.append("/proc/self/ns/user: not the machine's first")
    if {"self/mnt", "1/mnt"} <= links.keys() and links["self/mnt"] != links["1/mnt"]:
        signs.append("/proc/self/ns/mnt: not that of process 1")
    return signs


def _by_launcher(variables: Mapping[str, str], mount: str | None) -> tuple[list[_Clue], list[str]]:
    """What was handed in with this process, and the words that prove it to be in another mount namespace."""
    name = variables.get("PRIMBENCH_RUNTIME", "")
    host = re.search(r"mnt:\[[0-9]+\]", variables.get("PRIMBENCH_HOST_NAMESPACES", ""))
    if host and host[0] == mount:
        return [], []  # the launcher's own place, whatever that is
    apart = ["/proc/self/ns/mnt: not that of the launcher (PRIMBENCH_HOST_NAMESPACES)"] if host and mount else []
    if re.fullmatch(r"[a-z][a-z0-9-]{0,39}", name) is None or name == "host":
        return [], apart
    return [_Clue(name, f"PRIMBENCH_RUNTIME={name}")], apart


def _by_variables(variables: Mapping[str, str]) -> list[_Clue]:
    clues = [
        _Clue(name, f"{variable} is set ({name})")
        for name, signs in _signs().items()
        for variable in signs.variables
        if variable in variables
    ]
    too = {_signs()[clue.name].also_sets for clue in clues}
    clues = [clue for clue in clues if clue.name not in too]
    value = variables.get("container")
    if value in _signs() and _signs()[value].is_value:
        clues.append(_Clue(value, f"container={value}"))
    elif value:  # images bring words of their own, such as "oci"
        clues.append(_Clue("", f"container={utf8(value)[:40]}"))
    return clues


def _markers(root: Path) -> list[_Clue]:
    left = {name: signs.marker for name, signs in _signs().items() if signs.marker is not None}
    return [_Clue(name, f"/{path} exists ({name})") for name, path in left.items() if (root / path).exists()]


def _groups(root: Path, pid: int) -> list[_Clue]:
    """The innermost container that a control group's path names."""
    clues = []
    for line in (folder_of(root, pid) / "cgroup").read_text(errors="backslashreplace").splitlines():
        path = line.split(":", 2)[2]
        found = [
            (match.start(), name, match[0])
            for name, signs in _signs().items()
            if signs.group is not None
            for match in re.finditer(signs.group, path)
        ]
        if found:
            _, name, part = max(found)
            clues.append(_Clue(name, f"/proc/self/cgroup: {_short(part)}"))
    return list(dict.fromkeys(clues))


def _mounts(root: Path, pid: int) -> list[Mount]:
    mounts = read_mounts(root, pid)
    if not any(mount.point == "/" for mount in mounts):
        raise ValueError("/proc/self/mountinfo names no root file system")
    return mounts


def _by_mounts(mounts: Iterable[Mount]) -> list[_Clue]:
    clues = [clue for mount in mounts for clue in _by_mount(mount)]
    if any(not clue.name for clue in clues):
        clues = [clue._replace(name=_signs()[clue.name].in_pod or clue.name) for clue in clues]
    return clues


def _by_mount(mount: Mount) -> Iterator[_Clue]:
    for name, signs in _signs().items():
        if mount.point == "/" and signs.root and (match := re.search(signs.root, mount.options)):
            yield _Clue(name, f"/proc/self/mountinfo: / from {match[0]}")
        if mount.point == signs.mount:
            yield _Clue(name, f"/proc/self/mountinfo: {mount.point} is a mount ({name})")
        if mount.point in _WRITTEN and signs.source and (match := re.search(signs.source, mount.source)):
            yield _Clue(name, f"/proc/self/mountinfo: {mount.point} from {_short(match[0])}")
            return


def _foreign_root(mounts: Iterable[Mount]) -> list[str]:
    """What / is made of where that is layers, an archive or a folder, unlike most machines' own; else []."""
    for mount in reversed([mount for mount in mounts if mount.point == "/"]):
        if mount.kind in ("overlay", "squashfs", "aufs") or mount.kind.startswith("fuse"):
            return [f"/proc/self/mountinfo: / is {mount.kind}"]
        machine = mount.source == "/" or mount.kind == "btrfs" or mount.source.startswith("/ostree/")
        return [] if machine else ["/proc/self/mountinfo: / is a folder of another file system"]
    return []


def _short(text: str) -> str:
    """The text with ids of containers cut to 12 of their 64 digits, as `docker ps` shows them."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1", text)
