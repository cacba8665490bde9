"""What stands between a process and the kernel: filters, capabilities, namespaces, the root file system."""

from __future__ import annotations

import ctypes
import errno
import functools
import math
import mmap
import os
from typing import TYPE_CHECKING, Annotated

import msgspec

from primbench.environment import container, costs
from primbench.environment import disks as of_disks
from primbench.environment import filesystems as folders
from primbench.environment.container import ContainerRuntime
from primbench.environment.filesystems import FILES_OF, SHARED_MEMORY
from primbench.numa import mempolicy
from primbench.quantities import Amount, Seconds, Whole
from primbench.system import capabilities as rights
from primbench.system import loopback as of_sockets
from primbench.system.files import attempt, labelled_bytes, labelled_value, read_mounts, utf8, whole_number
from primbench.system.meaning import Fact
from primbench.system.namespaces import FIRST_NAMESPACES
from primbench.system.prctl import GET_THP_DISABLE, prctl
from primbench.system.processes import folder_of, named, processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECCOMP = ("disabled", "strict", "filter")  # proc(5)
_WATCHES = {"anon_inode:[perf_event]", "anon_inode:bpf-raw-tracepoint"}  # perf_event_open(2), bpf(2)
_FEW_CALLS = 50
_IO_URING_SETUP = 425  # one number on all architectures since Linux 5.1


_told = functools.partial(Fact, layer="confinement")
_own = functools.partial(_told, of_others=False)
_of_far_mounts = _told(rule="files")
_of_loopback = _told(rule="loopback")


def executable_pages(root: Path) -> str:
    """Whether a page that was written to may be executed then, as code compiled at run time is: "allowed" or the name
    of the error, EACCES where the process gave that up (PR_SET_MDWE) or a security module denies it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        page[0] = 0
        held = ctypes.c_char.from_buffer(page)
        access = mmap.PROT_READ | mmap.PROT_EXEC
        refused = libc.mprotect(ctypes.byref(held), ctypes.c_size_t(mmap.PAGESIZE), access)
        error = ctypes.get_errno()
        del held  # by which the page is in use
    return errno.errorcode.get(error, str(error)) if refused else "allowed"


def _of_namespace(kind: str) -> Fact:
    return _told(varies=kind == "mnt", first=FIRST_NAMESPACES.get(kind))


def _of_folder(what: str) -> Fact:
    rule = "shared-memory" if what == SHARED_MEMORY else "files"
    return _told(rule=rule, beside=what.startswith(FILES_OF))


def _of_read_ahead(what: str) -> Fact:
    """Where someone works lies wherever that is."""
    return Fact() if what == folders.WORKING_FOLDER else _told(rule="read-ahead", less_is_slower=True)


def _of_access_times(what: str) -> Fact:
    return _told(rule="access-times", beside=what.startswith(FILES_OF))


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """None is unknown, with the reason in ``missing`` under the field's name."""

    # fmt: off
    runtime: Annotated[ContainerRuntime | None, _told("The container runtime that it is in, with the evidence.",
        "variables, /proc/self, marker files: see its evidence", container.detect, "runtime")] = None
    seccomp: Annotated[str | None, _told("Whether system calls are filtered: disabled, strict or filter.",
        "/proc/self/status Seccomp", _seccomp, "filters")] = None
    seccomp_filters: Annotated[Whole | None, _told("How many filters of system calls stand behind one another.",
        "/proc/self/status Seccomp_filters", _status_number("Seccomp_filters"), "filters")] = None
    no_new_privileges: Annotated[bool | None, _told("Whether no program that it starts gets more rights than it has.",
        "/proc/self/status NoNewPrivs", lambda root, pid: _status_number("NoNewPrivs")(root, pid) != 0)] = None
    speculation_store_bypass: Annotated[str | None, _told(
        "The kernel's words for how loads are kept from passing stores in this process.",
        "/proc/self/status Speculation_Store_Bypass", _status("Speculation_Store_Bypass"), "mitigations")] = None
    speculation_indirect_branch: Annotated[str | None, _told(
        "The kernel's words for how indirect branches are kept from being guessed in this process.",
        "/proc/self/status SpeculationIndirectBranch", _status("SpeculationIndirectBranch"), "mitigations")] = None
    capabilities: Annotated[list[str] | None, _told("The capabilities in effect, by name, such as CAP_SYS_NICE.",
        "/proc/self/status CapEff", rights.capabilities)] = None
    lsm_profile: Annotated[str | None, _told(
        "The profile that a security module holds it to; none where no module at work gives any.",
        "/proc/self/attr/current", _lsm_profile, "filters")] = None
    namespaces: Annotated[dict[str, str] | None, _told(
        "By kind the kernel's name of each namespace, such as mnt:[4026531841], alike where two processes share it.",
        "/proc/self/ns", _namespaces, entry=_of_namespace)] = None
    root_user: Annotated[bool | None, _told("Whether it is root in its user namespace.",
        "/proc/self/status Uid", _root_user)] = None
    user_map: Annotated[list[str] | None, _told("Which users of its namespace are which outside, by ranges.",
        "/proc/self/uid_map", _user_map)] = None
    root_filesystem: Annotated[str | None, _told("The kind of file system that is mounted on /.",
        "/proc/self/mountinfo", _root_filesystem, "files")] = None
    filesystems: Annotated[dict[str, str] | None, _told(
        "By what a folder is for, the kind of file system that holds it and where that is mounted: 9p on /mnt/c.",
        "/proc/self/mountinfo, and which folders are used", folders.filesystems, "files", entry=_of_folder)] = None
    access_times: Annotated[dict[str, str] | None, _told(
        "By what a folder is for, what of a mount's options says when reading a file is noted in it.",
        "/proc/self/mountinfo", folders.access_times, "access-times", entry=_of_access_times)] = None
    temporary_steps: Annotated[Whole | None, _own(
        "Names and links on the way to the folder for temporary files, which is gone for each file that is opened.",
        "TMPDIR, readlink()", lambda root: folders.steps_to_temporary_files(), "long-path", more_is_slower=True)] = None
    far_mounts: Annotated[dict[str, str] | None, _told(
        "What else is mounted over a network or by a program, with its kind: /models is nfs4.",
        "/proc/self/mountinfo", folders.far_mounts, "files", entry=_of_far_mounts)] = None
    disks: Annotated[dict[str, str] | None, Fact("By what a folder is for, the disk that it lies on.",
        "/proc/self/mountinfo, /sys/dev/block", of_disks.disks)] = None
    read_ahead_bytes: Annotated[dict[str, Whole] | None, _told(
        "By what a folder is for, how far beyond what is asked for the kernel reads there at most.",
        "/sys/class/bdi/*/read_ahead_kb, /sys/dev/block/*/queue", of_disks.read_ahead_bytes,
        entry=_of_read_ahead)] = None
    transparent_hugepage_disabled: Annotated[bool | None, _told("Whether it alone has no huge pages, by prctl.",
        "prctl(PR_GET_THP_DISABLE)", _transparent_hugepage_disabled, "huge-pages")] = None
    executable_pages: Annotated[str | None, _own(
        "Whether a page that was written to may be executed then: allowed, or the name of the error.",
        "mprotect() of a page of its own", executable_pages, "executable-pages")] = None
    noexec: Annotated[list[str] | None, _told(
        "Which of the folders that compiled code is loaded from are mounted noexec, so that none can be.",
        "/proc/self/mountinfo", folders.noexec, "noexec", more_is_slower=True)] = None
    umask: Annotated[str | None, _told("Permissions that new files do not get, in octal.",
        "/proc/self/status Umask", _status("Umask"))] = None
    set_mempolicy: Annotated[str | None, _own("Allowed, or the name of the error, by a call that changes nothing.",
        "set_mempolicy(), refused before it changes anything", _permission("set_mempolicy"), "memory",
        by_doctor=True)] = None
    mbind: Annotated[str | None, _own("Allowed, or the name of the error, by a call that changes nothing.",
        "mbind(), refused before it changes anything", _permission("mbind"), "memory", by_doctor=True)] = None
    move_pages: Annotated[str | None, _own("Allowed, or the name of the error, by a call that changes nothing.",
        "move_pages() of one page, asking only", _permission("move_pages"))] = None
    io_uring: Annotated[str | None, _own("Allowed, or the name of the error, by a call that changes nothing.",
        "io_uring_setup(), without a place for its rings", _io_uring, "io-uring")] = None
    system_call_s: Annotated[Seconds | None, _own(
        "What a cheap system call (getppid) takes without what Python adds, which a filter makes dearer.",
        "getppid() beside getpagesize(), measured", costs.system_call_s, varies=True, noted_from=0.5e-6)] = None
    calls_s: Annotated[dict[str, Seconds] | None, _own(
        "What other calls take, by name, with what Python adds: mmap and munmap of a page, clone of a thread, futex.",
        "mmap() and munmap(), a thread's start, futex(), measured", costs.calls_s, varies=True)] = None
    open_file_s: Annotated[Seconds | None, _own(
        "What opening the interpreter's file and closing it takes, whoever looks at it meanwhile.",
        "open() and close() of the interpreter, measured", costs.open_file_s, varies=True, noted_from=20e-6)] = None
    open_temporary_s: Annotated[Seconds | None, _own(
        "The same of a file in the folder for temporary ones, or in a case's own, once that is over.",
        "open() and close() of a file in the folder for temporary ones, measured", costs.open_temporary_file_s,
        varies=True, noted_from=20e-6)] = None
    packet_s: Annotated[Seconds | None, _own(
        "What a datagram to this process itself takes by the loopback, whoever looks at it.",
        "a datagram to oneself by the loopback, measured", costs.packet_s, varies=True)] = None
    interruptions_hz: Annotated[Amount | None, _own(
        "How often what only computes is stopped for a moment, the least but one of a few counts, by steps of 2000 Hz.",
        "gaps between looks at the clock, measured", costs.interruptions_hz, varies=True, noted_from=2000.0)] = None
    probed: Annotated[bool | None, _told(
        "Whether the kernel stops at a function of a library that this process has called (uprobe).",
        "/proc/self/maps [uprobes]", _probed, by_doctor=True, noted_from=0.0)] = None
    loopback: Annotated[dict[str, str] | None, _own(
        "What connects processes of one machine by sockets: mtu, queue (which may hold packets), TCP's settings.",
        "SIOCGIFMTU and RTM_GETQDISC of lo, /proc/sys/net/ipv4/tcp_*", of_sockets.loopback, entry=_of_loopback,
        noted_from=0.0)] = None
    locked_bytes: Annotated[Whole | None, Fact(
        "Memory that is never given back and is there as soon as it is asked for (mlockall).",
        "/proc/self/status VmLck", lambda root, pid: labelled_bytes(folder_of(root, pid) / "status", "VmLck"))] = None
    tracer: Annotated[str | None, _told(
        "Number and name of the process that traces this one, such as 4242 (strace); none.",
        "/proc/self/status TracerPid", tracer_of, varies=True, by_doctor=True, noted_from=0.0)] = None
    watchers: Annotated[list[str] | None, _own(
        "Processes that are seen to watch events of the kernel, as perf does; none where system calls are quick.",
        "/proc/*/fd: perf_event, bpf-raw-tracepoint", _watchers, varies=True, noted_from=math.inf)] = None
    # fmt: on
    missing: dict[str, str] = {}


def _status(label: str) -> Callable[[Path, int], str]:
    return lambda root, pid: labelled_value(folder_of(root, pid) / "status", label)


def _status_number(label: str) -> Callable[[Path, int], int]:
    return lambda root, pid: whole_number(_status(label)(root, pid), folder_of(root, pid) / "status")


def _seccomp(root: Path, pid: int) -> str:
    mode = _status_number("Seccomp")(root, pid)
    if not 0 <= mode < len(_SECCOMP):
        raise ValueError(f"/proc/self/status: Seccomp {mode} is not known")
    return _SECCOMP[mode]


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
    return prctl(GET_THP_DISABLE) != 0


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
