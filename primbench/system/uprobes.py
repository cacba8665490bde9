"""How often another process's thread calls a function: a breakpoint of the kernel's, with a counter of perf's.

All that changes there is the first byte of the function, in that process alone and while the counter is open. Each call
costs a trap meanwhile, 1 us, or 10 us in some virtual machines. Once this process has ended the kernel takes it out.
Sources: perf_event_open(2); Linux, kernel/events/core.c, "uprobe" PMU.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from primbench.system.files import read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Linux: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h,
# arch/powerpc/kernel/syscalls/syscall.tbl.
SYSTEM_CALL = "perf_event_open"
NUMBERS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319}
KIND = Path("/sys/bus/event_source/devices/uprobe/type")
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_TOTAL_TIME_RUNNING = 2  # PERF_FORMAT_TOTAL_TIME_RUNNING, in ns: of a thread's counter, while that was on a CPU
_READ = struct.Struct("QQ")
_CHECKED = "labs"  # of libc: any function does that takes a number and calls nothing
_CHECKED_CALLS = 100


class CountedCalls(NamedTuple):
    """Calls that were counted so far."""

    calls: int
    ran_s: float
    """How long the thread ran meanwhile."""


class _Attributes(ctypes.Structure):
    """The first version of perf_event_attr and one field more. what, where: config1 and config2, to an uprobe."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("unused", ctypes.c_uint64 * 2),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup", ctypes.c_uint32 * 2),
        ("what", ctypes.c_uint64),
        ("where", ctypes.c_uint64),
    )


@contextmanager
def counted(path: Path, offset: int, thread: int) -> Iterator[Callable[[], CountedCalls]]:
    """Within the block, how often that thread has called what begins at that offset of a file that it has mapped.

    Raises OSError, EACCES without CAP_PERFMON; LookupError where the number of the system call is not known.
    """
    file = _opened(path, offset, thread)
    try:
        yield lambda: _read(file)
    finally:
        os.close(file)


def _read(file: int) -> CountedCalls:
    calls, ran_ns = _READ.unpack(os.read(file, _READ.size))
    return CountedCalls(calls, ran_ns / 1e9)


@functools.cache
def check_counting() -> None:
    """Count calls of a function of libc by this thread, for what is sandboxed may have a counter that never counts.

    Raises as counted() does, and ValueError where the kernel counts them wrongly.
    """
    function = getattr(ctypes.CDLL(None), _CHECKED)
    with counted(*_place_of(function), threading.get_native_id()) as count:
        before = count().calls
        for _ in range(_CHECKED_CALLS):
            function(1)
        calls = count().calls - before
    if calls != _CHECKED_CALLS:
        raise ValueError(f"uprobes count wrongly here: {calls} of {_CHECKED_CALLS} calls of {_CHECKED} by itself")


def _place_of(function: Callable[..., object]) -> tuple[Path, int]:
    """File and offset of a function of this process. Raises LookupError where it is of none.

    Layout: proc_pid_maps(5).
    """
    address = ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        addresses, _, offset, *_ = line.split(" ", 3)
        first, last = (int(each, 16) for each in addresses.split("-"))
        if first <= address < last and "/" in line:
            return Path(line[line.find("/") :]), address - first + int(offset, 16)
    raise LookupError(f"{_CHECKED}, by which counting is checked, lies in no file")


def _opened(path: Path, offset: int, thread: int) -> int:
    machine = os.uname().machine
    if machine not in NUMBERS:
        raise LookupError(f"the number of {SYSTEM_CALL} on {machine} is not known")
    name = ctypes.create_string_buffer(os.fsencode(path))
    asked = _Attributes(
        type=read_number(KIND),
        size=ctypes.sizeof(_Attributes),
        read_format=_TOTAL_TIME_RUNNING,
        what=ctypes.addressof(name),
        where=offset,
    )
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    any_cpu, no_group = ctypes.c_int(-1), ctypes.c_int(-1)
    number, flags = ctypes.c_long(NUMBERS[machine]), ctypes.c_ulong(_CLOSE_ON_EXEC)
    file = libc.syscall(number, ctypes.byref(asked), ctypes.c_int(thread), any_cpu, no_group, flags)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), SYSTEM_CALL)
    return int(file)
