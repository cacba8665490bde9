"""Refuse the system calls of a thread and count them by name: a seccomp filter, and a process that answers for it.

A filter is for ever, but only the thread's that installs it: what is to be sealed runs in a thread made for it, and
this process keeps its calls. The filter asks a listener (seccomp_unotify(2)) rather than refuse by itself, so that it
is known what was refused, and so that the thread can end in the ordinary way. The listener is a process of its own:
the thread may hold the interpreter's lock when it is stopped.

As a program, `python -P -m primbench.system.seccomp SOCKET MEMORY`, this file is the listener.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from primbench.errors import PrimbenchError, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Refuses = Literal["ioctl", "all"]
"""all: everything but ALLOWED."""
Result = TypeVar("Result")

# How threads wait for one another, the clock where it is no vDSO, the end of a thread, the ways back from a signal.
ALLOWED = ("futex", "clock_gettime", "exit", "rt_sigreturn", "restart_syscall")

# Linux: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h. Those without which there is no
# seal, and those that a framework or a driver may make in passing; others are told by their number.
NUMBERS = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "poll": 7, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
        "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16, "sched_yield": 24, "mremap": 25,
        "madvise": 28, "nanosleep": 35, "getpid": 39, "sendmsg": 46, "recvmsg": 47, "clone": 56, "vfork": 58,
        "exit": 60, "wait4": 61, "fcntl": 72, "gettimeofday": 96, "getppid": 110, "gettid": 186, "futex": 202,
        "sched_setaffinity": 203, "sched_getaffinity": 204, "restart_syscall": 219, "clock_gettime": 228,
        "clock_nanosleep": 230, "tgkill": 234, "openat": 257, "ppoll": 271, "getcpu": 309, "seccomp": 317,
        "getrandom": 318, "membarrier": 324, "clone3": 435,
    },
    "aarch64": {
        "fcntl": 25, "ioctl": 29, "openat": 56, "close": 57, "read": 63, "write": 64, "ppoll": 73, "exit": 93,
        "futex": 98, "nanosleep": 101, "clock_gettime": 113, "clock_nanosleep": 115, "sched_setaffinity": 122,
        "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "tgkill": 131, "rt_sigaction": 134,
        "rt_sigprocmask": 135, "rt_sigreturn": 139, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173,
        "gettid": 178, "sendmsg": 211, "recvmsg": 212, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220,
        "mmap": 222, "mprotect": 226, "madvise": 233, "wait4": 260, "seccomp": 277, "getrandom": 278,
        "membarrier": 283, "clone3": 435,
    },
}  # fmt: skip

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_SPEC_ALLOW, _NEW_LISTENER = 1 << 2, 1 << 3  # the first: before Linux 5.16 a filter alone makes branches slower
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _FIRST_ARGUMENT_AT = 0, 16  # in struct seccomp_data, of machines with the low word first
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST_BYTES, _REQUEST, _ANSWER = 80, "=QIIi", "=QqiI"  # id, pid, flags, number; id, value, error, flags
_CONTINUE = 1

_END_TIMEOUT_S = 5.0
_WORDS = mmap.PAGESIZE // ctypes.sizeof(ctypes.c_uint)
_Shared = ctypes.c_uint * _WORDS
"""Of the thread and the listener. Word 0: whether calls are refused; word 1 + n: how often number n was."""


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


class Seal:
    """A filter that refuses system calls of one thread, the first that closes it. Made by run()."""

    def __init__(self, refuses: Refuses, shared: ctypes.Array[ctypes.c_uint], channel: socket.socket) -> None:
        self._refuses, self._shared, self._channel = refuses, shared, channel
        self._numbers = NUMBERS[os.uname().machine]
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        self._installed = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        """System calls of this thread fail with EPERM inside, and pass again after.

        Raises UnsupportedCase where the kernel or a filter from outside lets nothing be sealed, PrimbenchError where
        a call that must be refused was not, before or after.
        """
        if not self._installed:
            self._install()
        self._shared[0] = 1
        try:
            self._prove()
            yield
            self._prove()
        finally:
            self._shared[0] = 0

    @property
    def refused(self) -> dict[str, int]:
        """How often a system call was refused, by its name."""
        names = {number: name for name, number in self._numbers.items()}
        counts = enumerate(self._shared[1:])
        return {names.get(number, f"system call {number}"): count for number, count in counts if count}

    def _install(self) -> None:
        # All of it is made before: until the listener is sent, a refused call would wait for ever.
        program = _program(self._refuses, self._numbers, self._channel.fileno())
        sent = array.array("i", [0])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)]
        number, operation = ctypes.c_long(self._numbers["seccomp"]), ctypes.c_uint(_SET_MODE_FILTER)
        flags, pointer = ctypes.c_uint(_NEW_LISTENER | _SPEC_ALLOW), ctypes.byref(program)
        self._libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # of this thread alone, too
        listener = self._libc.syscall(number, operation, flags, pointer)
        if listener < 0:
            raise UnsupportedCase(
                f"no seccomp filter with a listener can be had here: {os.strerror(ctypes.get_errno())}: it needs "
                "Linux 5.9, and a place whose own filter allows seccomp"
            )
        sent[0] = listener
        self._channel.sendmsg((b"l",), rights)
        os.close(listener)
        self._installed = True

    def _prove(self) -> None:
        """ioctl on no file, which both kinds refuse; open, the kernel says that there is no such file."""
        at = 1 + self._numbers["ioctl"]
        before = self._shared[at]
        self._libc.ioctl(-1, ctypes.c_ulong())
        if self._shared[at] != before + 1 or ctypes.get_errno() != errno.EPERM:
            raise PrimbenchError("the seal does not hold: an ioctl passed it")
        self._shared[at] = before


def run(work: Callable[[Seal], Result], refuses: Refuses) -> Result:
    """Do ``work`` in a thread of its own, which can close the seal that it is given; all it raises passes through.

    Raises UnsupportedCase on a machine whose system calls are not known here.
    """
    from concurrent.futures import ThreadPoolExecutor  # 5 ms, which a list of primitives need not wait for

    machine = os.uname().machine
    if machine not in NUMBERS:
        raise UnsupportedCase(f"the system calls of {machine} are not known: a seal is for {', '.join(NUMBERS)}")
    with _listening() as (channel, shared), ThreadPoolExecutor(1, "sealed") as thread:
        return thread.submit(work, Seal(refuses, shared, channel)).result()


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, ctypes.Array[ctypes.c_uint]]]:
    """A listener that waits for a filter, and the memory it shares. It ends with the thread that it listens to."""
    ours, theirs = socket.socketpair()
    memory = os.memfd_create("seal")
    with ours:
        try:
            os.ftruncate(memory, mmap.PAGESIZE)
            descriptors = (theirs.fileno(), memory)
            listener = subprocess.Popen(
                [sys.executable, "-P", "-m", "primbench.system.seccomp", *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
            shared = _Shared.from_buffer(mmap.mmap(memory, mmap.PAGESIZE))
        finally:
            theirs.close()
            os.close(memory)
        try:
            if not ours.recv(1):
                raise PrimbenchError(f"the listener of a seal ended with exit status {listener.wait()}")
            yield ours, shared
        finally:
            ours.close()
            _end(listener)


def _end(listener: subprocess.Popen[bytes]) -> None:
    """Only after its thread: a system call on which nobody decides fails, and the C library ends a thread by some."""
    try:
        listener.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:  # before Linux 5.9 nothing tells it
        listener.kill()
        listener.wait()


def _program(refuses: Refuses, numbers: dict[str, int], channel: int) -> _Program:
    """The filter as BPF. channel: the socket over which the thread sends the listener, which is let through."""
    steps = [(_LOAD_WORD, 0, 0, _NUMBER_AT)]
    if refuses == "ioctl":
        steps += [(_JUMP_IF_EQUAL, 0, 1, numbers["ioctl"]), (_RETURN, 0, 0, _ASK), (_RETURN, 0, 0, _ALLOW)]
    else:
        for name in ALLOWED:
            steps += [(_JUMP_IF_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _ALLOW)]
        steps += [
            (_JUMP_IF_EQUAL, 0, 3, numbers["sendmsg"]),
            (_LOAD_WORD, 0, 0, _FIRST_ARGUMENT_AT),
            (_JUMP_IF_EQUAL, 0, 1, channel),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ASK),
        ]
    return _Program(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps)))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who started it
    channel = socket.socket(fileno=int(sys.argv[1]))
    shared = _Shared.from_buffer(mmap.mmap(int(sys.argv[2]), mmap.PAGESIZE))
    channel.send(b"r")
    _, listeners, _, _ = socket.recv_fds(channel, 1, 1)
    channel.close()
    if listeners:
        _answer(listeners[0], shared)


def _answer(listener: int, shared: ctypes.Array[ctypes.c_uint]) -> None:
    """Answer each system call that the filter asks about, until no thread with the filter is left."""
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    while all(event & select.POLLIN for _, event in waiting.poll()):
        with contextlib.suppress(FileNotFoundError):  # who asked was interrupted, and asks again, or is dead
            request = bytearray(_REQUEST_BYTES)
            fcntl.ioctl(listener, _RECEIVE, request)
            identity, _, _, number = struct.unpack_from(_REQUEST, request)
            fcntl.ioctl(listener, _SEND, struct.pack(_ANSWER, identity, 0, *_decide(number, shared)))


def _decide(number: int, shared: ctypes.Array[ctypes.c_uint]) -> tuple[int, int]:
    """The answer to a system call, (-errno, flags): let through while the seal is open, else counted and refused."""
    if not shared[0]:
        return 0, _CONTINUE
    shared[1 + min(max(number, 0), _WORDS - 2)] += 1
    return -errno.EPERM, 0


if __name__ == "__main__":
    main()
