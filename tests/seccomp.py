"""Run a command under a real seccomp filter, as a container runtime's profile has it.

``python -P tests/seccomp.py --deny set_mempolicy,mbind -- COMMAND...`` makes these calls fail with EPERM, as Docker
does, or with the ``--errno`` named. No capability is needed: the filter comes with no_new_privs.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
from collections.abc import Sequence

from primbench.numa.mempolicy import SYSTEM_CALLS

# As the tables that mempolicy names have them.
NUMBERS = {
    "x86_64": SYSTEM_CALLS["x86_64"]
    | {"ftruncate": 77, "perf_event_open": 298, "io_uring_setup": 425, "seccomp": 317}
    | {"sched_setaffinity": 203, "sched_getaffinity": 204},
    "aarch64": SYSTEM_CALLS["aarch64"]
    | {"ftruncate": 46, "perf_event_open": 241, "io_uring_setup": 425, "seccomp": 277}
    | {"sched_setaffinity": 122, "sched_getaffinity": 123},
    "ppc64le": SYSTEM_CALLS["ppc64le"]
    | {"ftruncate": 94, "perf_event_open": 319, "io_uring_setup": 425, "seccomp": 358}
    | {"sched_setaffinity": 222, "sched_getaffinity": 223},
}[os.uname().machine]

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, SKIP_UNLESS_EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
FAIL_WITH, ALLOW = 0x00050000, 0x7FFF0000  # linux/seccomp.h


class Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def deny(calls: Sequence[str], error: int = errno.EPERM) -> None:
    """Let these calls of this process, and of those it starts, fail from now on. There is no way back."""
    steps = [Instruction(LOAD_WORD, 0, 0, 0)]  # the number of the call is the first word of what a filter is given
    for call in calls:
        steps += [Instruction(SKIP_UNLESS_EQUAL, 0, 1, NUMBERS[call]), Instruction(RETURN, 0, 0, FAIL_WITH | error)]
    steps.append(Instruction(RETURN, 0, 0, ALLOW))
    program = Program(len(steps), (Instruction * len(steps))(*steps))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--deny", required=True, type=lambda text: text.split(","))
    parser.add_argument("--errno", default="EPERM", type=lambda text: getattr(errno, text))
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    deny(asked.deny, asked.errno)
    os.execvp(asked.command[0], asked.command)


if __name__ == "__main__":
    main()
