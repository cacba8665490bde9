"""What the place costs whoever computes, opens a file or asks the kernel for something, by trying it out."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import mmap
import os
import resource
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from primbench.environment.configuration import temporary_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SLOW_SYSTEM_CALL_S = 1e-6  # getppid takes 0.05 to 0.2 us on a bare host
SLOW_CALLS_S = {"mmap": 20e-6, "clone": 200e-6, "futex": 5e-6}
"""Of ``calls_s``: from Python they take 4 us, 26 us and 0.4 us on a busy virtual machine, and less on a bare host."""
FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221}
"""Number of the call by architecture: syscall_64.tbl, unistd.h and syscall.tbl of Linux."""
_CALLS = 1000  # take 0.2 ms
_ROUNDS = 5
_FEW_CALLS = 200  # take 1 ms where each takes 4 us
_STARTS = 20  # take 0.5 ms
_FUTEX_WAKE_PRIVATE = 1 | 128  # linux/futex.h
_OPENS = 50  # take 0.1 ms
_PACKETS = 20  # take 0.15 ms
_LOST_S = 0.1  # after which a packet is given up
_LOOKS = 5
_SPUN_S = 0.5e-3  # in which Linux itself interrupts a thread once at most, by its own clock
_INTERRUPTED_S = 2e-6  # a look at the clock takes 0.05 to 0.2 us, handling an interrupt 2 us and more
_MOST_OF_A_LOOK = 20  # times as long: where each line of Python is slow, as under a debugger, all of them are


def system_call_s(root: Path, calls: int = _CALLS) -> float:
    """Seconds that getppid() takes longer than getpagesize(), which asks the kernel nothing: what Python itself takes,
    be it traced or short of its lock, is in both.
    """
    libc = ctypes.CDLL(None)
    return max(0.0, _call_s(libc.getppid, calls) - _call_s(libc.getpagesize, calls))


def _call_s(call: Callable[[], object], calls: int) -> float:
    """In the quickest of several rounds: slower ones were interrupted."""
    taken_s = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        taken_s.append(time.perf_counter() - begun)
    return min(taken_s) / calls


def calls_s(root: Path) -> dict[str, float]:
    """Seconds that other system calls take, by name, with what Python adds: a filter that the kernel knows to let
    getppid pass, or a tracer that asked for a few calls alone, slows these and not that one.

    mmap: mapping a page and unmapping it. clone: starting a thread and waiting until it runs, left out where none may
    be started. futex: waking nobody.
    """
    libc = ctypes.CDLL(None)
    found = {"mmap": _call_s(_mapping(libc), _FEW_CALLS)}
    with contextlib.suppress(RuntimeError):  # as Python has it
        found["clone"] = _call_s(_start_thread, _STARTS)
    number = FUTEX.get(os.uname().machine)
    return found if number is None else found | {"futex": _call_s(_waking(libc, number), _FEW_CALLS)}


def _mapping(libc: ctypes.CDLL) -> Callable[[], object]:
    """Maps a page that nothing touches, and gives it back."""
    libc.mmap.restype = ctypes.c_void_p
    length, access, kind = ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    anywhere, nothing, start = ctypes.c_void_p(), ctypes.c_long(), ctypes.c_void_p

    def call() -> None:
        libc.munmap(start(libc.mmap(anywhere, length, access, kind, -1, nothing)), length)

    return call


def _waking(libc: ctypes.CDLL, number: int) -> Callable[[], object]:
    """Wakes those who wait for a word that nobody waits for: futex(2), FUTEX_WAKE_PRIVATE."""
    word = ctypes.c_int()
    arguments = (ctypes.c_long(number), ctypes.byref(word), ctypes.c_int(_FUTEX_WAKE_PRIVATE), ctypes.c_int(1))
    return lambda: libc.syscall(*arguments)


def _start_thread() -> None:
    started = threading.Lock()
    started.acquire()
    _thread.start_new_thread(started.release, ())
    started.acquire()


def open_file_s(root: Path) -> float:
    return _open_s(sys.executable)


def open_temporary_file_s(root: Path) -> float:
    return open_temporary_s(temporary_files())


def open_temporary_s(folder: str) -> float:
    """Of a file without a name, so that none is left behind: whoever looks at files there sees it opened all the same.

    Raises OSError where the file system has no such files.
    """
    made = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        return _open_s(f"/proc/self/fd/{made}")
    finally:
        os.close(made)


def _open_s(path: str) -> float:
    return _call_s(lambda: os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC)), _OPENS)


def packet_s(root: Path) -> float:
    """Seconds for a datagram of one byte to this process itself by the loopback, where rules of a firewall and programs
    in the kernel look at each packet. Raises OSError where none arrives, as without a loopback that is up.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(_LOST_S)
        own.bind(("127.0.0.1", 0))
        own.connect(own.getsockname())
        return _call_s(lambda: (own.send(b"1"), own.recv(1)), _PACKETS)


def interruptions_hz(root: Path) -> float:
    """The least but one of several counts: what else interrupts a CPU comes and goes, and a profiler has to begin."""
    return sorted(_interruptions(_SPUN_S) for _ in range(_LOOKS))[1] / _SPUN_S


def _interruptions(spun_s: float) -> int:
    """How often there is a gap from one look at the clock to the next, in which no other thread was given the CPU."""
    now = time.perf_counter
    look_s = min(-now() + now() for _ in range(_MOST_OF_A_LOOK))
    longest_s = max(_INTERRUPTED_S, _MOST_OF_A_LOOK * look_s)
    switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    count, last = 0, now()
    end = last + spun_s
    while last < end:
        before, last = last, now()
        count += last - before > longest_s
    return max(0, count - (resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches))
