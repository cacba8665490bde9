"""What stands between a process and the kernel: filters, capabilities, namespaces, the root file system."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.environment import container, costs
from primbench.environment.container import Runtime
from primbench.environment.filesystems import (
    FILES_OF,
    SHARED_MEMORY,
    access_times,
    far_mounts,
    filesystems,
    steps_to_temporary_files,
)
from primbench.environment.reading import Reader, of_process, read_all
from primbench.numa import mempolicy
from primbench.quantities import Amount, Seconds, Whole
from primbench.system import loopback
from primbench.system.capabilities import capabilities
from primbench.system.files import attempt, labelled_bytes, labelled_value, read_mounts, utf8, whole_number
from primbench.system.meaning import NOTHING, Meaning
from primbench.system.namespaces import FIRST_NAMESPACES
from primbench.system.processes import folder_of, named, processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECCOMP = ("disabled", "strict", "filter")  # proc(5)
_PR_GET_THP_DISABLE = 42  # linux/prctl.h
_WATCHES = {"anon_inode:[perf_event]", "anon_inode:bpf-raw-tracepoint"}  # perf_event_open(2), bpf(2)
_FEW_CALLS = 50
_IO_URING_SETUP = 425  # one number on all architectures since Linux 5.1


def _of_namespace(kind: str) -> Meaning:
    set_by = {"ipc": "ipc", "net": "network"}.get(kind)
    return Meaning("confinement", varies=kind == "mnt", set_by=set_by, first=FIRST_NAMESPACES.get(kind))


def _of_folder(what: str) -> Meaning:
    rule = "shared-memory" if what == SHARED_MEMORY else "files"
    return Meaning("confinement", rule, set_by="root", beside=what.startswith(FILES_OF))


def _of_access_times(what: str) -> Meaning:
    return Meaning("confinement", "access-times", beside=what.startswith(FILES_OF))


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name.

    seccomp: "disabled", "strict" or "filter"; seccomp_filters: how many stand behind one another.
    speculation_store_bypass, speculation_indirect_branch: the kernel's words for this process.
    capabilities: the effective ones, by name, such as "CAP_SYS_NICE".
    lsm_profile: of this process; "none" where no security module at work gives any.
    namespaces: kind -> the kernel's identity of it, such as "mnt:[4026531841]", equal where two processes share it.
    root_user: whether it is root in its user namespace; user_map: as /proc/self/uid_map has it.
    root_filesystem: type of what is mounted on /. filesystems: by what a folder is for, such as "home", the type of
    what holds it and where that is mounted: "9p on /mnt/c".
    transparent_hugepage_disabled: for this process alone, by prctl.
    access_times: by what a folder is for, what of a mount's options says when reading a file is noted in it.
    temporary_steps: names and links on the way to the folder for temporary files, which is gone for each file opened.
    far_mounts: what else is mounted over a network or by a program, such as "/models" -> "nfs4".
    set_mempolicy, mbind, move_pages, io_uring: "allowed" or the name of the error, by a call that changes nothing.
    system_call_s: cost of a cheap one (getppid), which a filter makes dearer, without what Python adds.
    open_file_s: what opening the interpreter's file and closing it takes, whoever looks at it meanwhile.
    open_temporary_s: the same of a file in the folder for temporary ones, or in a case's own, once that is over.
    packet_s: what a datagram to this process itself takes by the loopback, whoever looks at it.
    interruptions_hz: how often what only computes is stopped for a moment, the least but one of a few readings.
    probed: whether the kernel stops at a function of a library that this process has called (uprobe).
    loopback: how processes of one machine reach each other by sockets here: "mtu", "queue" (which may delay packets or
    hold them to a rate) and TCP's settings.
    locked_bytes: of its memory, which is never given back and is there as soon as it is asked for (mlockall).
    tracer: number and name of the process that traces this one, such as "4242 (strace)"; "none".
    watchers: of processes that are seen to watch events of the kernel, as perf does; [] where system calls are quick.
    """

    runtime: Annotated[Runtime | None, Meaning("confinement", "runtime")] = None
    seccomp: Annotated[str | None, Meaning("confinement", "filters", set_by="seccomp")] = None
    seccomp_filters: Annotated[Whole | None, Meaning("confinement", "filters", set_by="seccomp")] = None
    no_new_privileges: Annotated[bool | None, Meaning("confinement")] = None
    speculation_store_bypass: Annotated[str | None, Meaning("confinement", "mitigations", set_by="seccomp")] = None
    speculation_indirect_branch: Annotated[str | None, Meaning("confinement", "mitigations", set_by="seccomp")] = None
    capabilities: Annotated[list[str] | None, Meaning("confinement")] = None
    lsm_profile: Annotated[str | None, Meaning("confinement", "filters")] = None
    namespaces: Annotated[dict[str, str] | None, Meaning("confinement", entry=_of_namespace)] = None
    root_user: Annotated[bool | None, Meaning("confinement")] = None
    user_map: Annotated[list[str] | None, Meaning("confinement")] = None
    root_filesystem: Annotated[str | None, Meaning("confinement", "files", set_by="root")] = None
    filesystems: Annotated[dict[str, str] | None, Meaning("confinement", "files", entry=_of_folder)] = None
    access_times: Annotated[dict[str, str] | None, Meaning("confinement", "access-times", entry=_of_access_times)] = (
        None
    )
    temporary_steps: Annotated[Whole | None, Meaning("confinement", "long-path", more_is_slower=True)] = None
    far_mounts: Annotated[
        dict[str, str] | None,
        Meaning("confinement", "files", entry=Meaning("confinement", "files", set_by="fuse_overlay")),
    ] = None
    transparent_hugepage_disabled: Annotated[bool | None, Meaning("confinement", "huge-pages")] = None
    set_mempolicy: Annotated[str | None, Meaning("confinement", "memory", by_doctor=True, set_by="cap_add")] = None
    mbind: Annotated[str | None, Meaning("confinement", "memory", by_doctor=True, set_by="cap_add")] = None
    move_pages: Annotated[str | None, Meaning("confinement")] = None
    io_uring: Annotated[str | None, Meaning("confinement", "io-uring", set_by="seccomp")] = None
    system_call_s: Annotated[Seconds | None, Meaning("confinement", varies=True)] = None
    open_file_s: Annotated[Seconds | None, Meaning("confinement", varies=True)] = None
    open_temporary_s: Annotated[Seconds | None, Meaning("confinement", varies=True)] = None
    packet_s: Annotated[Seconds | None, Meaning("confinement", varies=True)] = None
    interruptions_hz: Annotated[Amount | None, Meaning("confinement", varies=True)] = None
    probed: Annotated[bool | None, Meaning("confinement", by_doctor=True)] = None
    loopback: Annotated[dict[str, str] | None, Meaning("confinement", entry=Meaning("confinement", "loopback"))] = None
    locked_bytes: Annotated[Whole | None, NOTHING] = None
    tracer: Annotated[str | None, Meaning("confinement", varies=True, by_doctor=True)] = None
    watchers: Annotated[list[str] | None, Meaning("confinement", varies=True)] = None
    missing: dict[str, str] = {}


def collect(root: Path, pid: int = 0) -> Confinement:
    return Confinement(**read_all(READERS, root, pid))


def _status(label: str) -> Callable[[Path, int], str]:
    return lambda root, pid: labelled_value(folder_of(root, pid) / "status", label)


def _status_number(label: str) -> Callable[[Path, int], int]:
    return lambda root, pid: whole_number(_status(label)(root, pid), folder_of(root, pid) / "status")


def _seccomp(root: Path, pid: int) -> str:
    mode = _status_number("Seccomp")(root, pid)
    if not 0 <= mode < len(_SECCOMP):
        raise ValueError(f"/proc/self/status: Seccomp {mode} is not known")
    return _SECCOMP[mode]


def _no_new_privileges(root: Path, pid: int) -> bool:
    return _status_number("NoNewPrivs")(root, pid) != 0


def _lsm_profile(root: Path, pid: int) -> str:
    """AppArmor has a file of its own, since several modules can be at work."""
    try:
        text = (folder_of(root, pid) / "attr/apparmor/current").read_text()
    except OSError:
        text = _own_label(root, pid)
    profile = text.strip(" \n\0")
    if not profile:
        raise ValueError("/proc/self/attr/current is empty")
    return profile


def _own_label(root: Path, pid: int) -> str:
    try:
        return (folder_of(root, pid) / "attr/current").read_text()
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "none"  # no module answers
        raise


def _namespaces(root: Path, pid: int) -> dict[str, str]:
    """Namespaces of a process by kind; those "for_children" are not its own but for what it starts."""
    folder = folder_of(root, pid) / "ns"
    kinds = [name for name in sorted(os.listdir(folder)) if not name.endswith("_for_children")]
    return {kind: utf8(os.readlink(folder / kind)) for kind in kinds}


def _root_user(root: Path, pid: int) -> bool:
    """Whether the effective user is root: the second of four ids in proc(5)'s status."""
    users = _status("Uid")(root, pid).split()
    return whole_number(users[1], folder_of(root, pid) / "status") == 0


def _user_map(root: Path, pid: int) -> list[str]:
    return [" ".join(line.split()) for line in (folder_of(root, pid) / "uid_map").read_text().splitlines()]


def _root_filesystem(root: Path, pid: int) -> str:
    """What / is made of: the last mount there, as it hides those before it."""
    kinds = [mount.kind for mount in read_mounts(root, pid) if mount.point == "/"]
    if not kinds:
        raise ValueError("/proc/self/mountinfo has nothing mounted on /")
    return kinds[-1]


def _transparent_hugepage_disabled(root: Path, pid: int) -> bool:
    """Of others status tells, since Linux 5.0."""
    if pid:
        return _status_number("THP_enabled")(root, pid) == 0
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_ulong()
    found: int = libc.prctl(_PR_GET_THP_DISABLE, nothing, nothing, nothing, nothing)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found != 0


def _permission(call: str) -> Callable[[Path], str]:
    def read(root: Path) -> str:
        try:
            mempolicy.probe(call)
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))
        return "allowed"

    return read


def _io_uring(root: Path) -> str:
    """By asking for rings without saying where: EFAULT, once the call itself is allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(ctypes.c_long(_IO_URING_SETUP), ctypes.c_uint(), ctypes.c_void_p())
    error = ctypes.get_errno()
    return "allowed" if error == errno.EFAULT else errno.errorcode.get(error, str(error))


def _probed(root: Path, pid: int) -> bool:
    """By the page of instructions that the kernel has stepped over, which it maps at the first probe that is met."""
    return "[uprobes]" in (folder_of(root, pid) / "maps").read_text(errors="replace")


def _locked_bytes(root: Path, pid: int) -> int:
    return labelled_bytes(folder_of(root, pid) / "status", "VmLck")


def tracer_of(root: Path, pid: int) -> str:
    number = _status_number("TracerPid")(root, pid)
    return named(root, number) if number else "none"


def _watchers(root: Path) -> list[str]:
    """Of those whose files this process may look at. All of them are looked through, so only where calls are slow."""
    if costs.system_call_s(root, _FEW_CALLS) < costs.SLOW_SYSTEM_CALL_S:
        return []
    return [named(root, pid) for pid in sorted(processes(root)) if _WATCHES.intersection(_open_files(root, pid))]


def _open_files(root: Path, pid: int) -> list[str]:
    """What its numbers of files stand for; none of a process that has ended, or that others may not look at."""
    folder = folder_of(root, pid) / "fd"
    files = attempt({}, "", lambda: os.listdir(folder)) or []
    return [attempt({}, "", functools.partial(os.readlink, folder / file)) or "" for file in files]


_STATUS = "/proc/self/status"
READERS = {
    "runtime": of_process("variables, /proc/self, marker files: see its evidence", container.detect),
    "seccomp": of_process(f"{_STATUS} Seccomp", _seccomp),
    "seccomp_filters": of_process(f"{_STATUS} Seccomp_filters", _status_number("Seccomp_filters")),
    "no_new_privileges": of_process(f"{_STATUS} NoNewPrivs", _no_new_privileges),
    "speculation_store_bypass": of_process(f"{_STATUS} Speculation_Store_Bypass", _status("Speculation_Store_Bypass")),
    "speculation_indirect_branch": of_process(
        f"{_STATUS} SpeculationIndirectBranch", _status("SpeculationIndirectBranch")
    ),
    "capabilities": of_process(f"{_STATUS} CapEff", capabilities),
    "lsm_profile": of_process("/proc/self/attr/current", _lsm_profile),
    "namespaces": of_process("/proc/self/ns", _namespaces),
    "root_user": of_process(f"{_STATUS} Uid", _root_user),
    "user_map": of_process("/proc/self/uid_map", _user_map),
    "root_filesystem": of_process("/proc/self/mountinfo", _root_filesystem),
    "filesystems": of_process("/proc/self/mountinfo, and which folders are used", filesystems),
    "access_times": of_process("/proc/self/mountinfo", access_times),
    "temporary_steps": Reader("TMPDIR, readlink()", lambda root: steps_to_temporary_files()),
    "far_mounts": of_process("/proc/self/mountinfo", far_mounts),
    "transparent_hugepage_disabled": of_process("prctl(PR_GET_THP_DISABLE)", _transparent_hugepage_disabled),
    "set_mempolicy": Reader("set_mempolicy(), refused before it changes anything", _permission("set_mempolicy")),
    "mbind": Reader("mbind(), refused before it changes anything", _permission("mbind")),
    "move_pages": Reader("move_pages() of one page, asking only", _permission("move_pages")),
    "io_uring": Reader("io_uring_setup(), without a place for its rings", _io_uring),
    "system_call_s": Reader("getppid() beside getpagesize(), measured", costs.system_call_s),
    "open_file_s": Reader("open() and close() of the interpreter, measured", costs.open_file_s),
    "open_temporary_s": Reader(
        "open() and close() of a file in the folder for temporary ones, measured", costs.open_temporary_file_s
    ),
    "packet_s": Reader("a datagram to oneself by the loopback, measured", costs.packet_s),
    "interruptions_hz": Reader("gaps between looks at the clock, measured", costs.interruptions_hz),
    "probed": of_process("/proc/self/maps [uprobes]", _probed),
    "loopback": Reader("SIOCGIFMTU and RTM_GETQDISC of lo, /proc/sys/net/ipv4/tcp_*", loopback.loopback),
    "locked_bytes": of_process(f"{_STATUS} VmLck", _locked_bytes),
    "tracer": of_process(f"{_STATUS} TracerPid", tracer_of),
    "watchers": Reader("/proc/*/fd: perf_event, bpf-raw-tracepoint", _watchers),
}
