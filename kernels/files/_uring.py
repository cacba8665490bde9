"""io_uring by its system calls: reads that are asked for together, and answered in any order (io_uring(7))."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.kernels.files.problem import UNDER_WAY
from primbench.system.files import attempt, labelled_value, read_number

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterator

# linux/io_uring.h; the numbers of the calls are those of all architectures but Alpha.
_SETUP, _ENTER = 425, 426
_GETEVENTS = 1
_READ = 22
_SQ_RING, _CQ_RING, _ENTRIES = 0, 0x8000000, 0x10000000
_PARAMETERS_BYTES = 120
_SUBMISSION_OFFSETS, _COMPLETION_OFFSETS = 40, 80  # in the parameters: of head, tail, mask, ... within the rings
_SUBMISSION = struct.Struct("=BBHiQQIIQ24x")  # opcode, flags, priority, file, offset, address, length, flags, own data
_COMPLETION = struct.Struct("=Qi4x")  # own data, result, flags

_libc = ctypes.CDLL(None, use_errno=True)


class Ring:
    """ask() for reads, then take answers()."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        """opened: closes it. Raises UnsupportedCase where the kernel or a filter refuses it."""
        parameters = bytearray(_PARAMETERS_BYTES)
        self._ring = _libc.syscall(_SETUP, UNDER_WAY, (ctypes.c_char * _PARAMETERS_BYTES).from_buffer(parameters))
        if self._ring < 0:
            raise UnsupportedCase(_refusal(ctypes.get_errno()))
        opened.callback(os.close, self._ring)
        entries, completions = struct.unpack_from("=II", parameters)
        _, self._tail, mask, _, _, _, array, _ = struct.unpack_from("=8I", parameters, _SUBMISSION_OFFSETS)
        self._c_head, self._c_tail, c_mask, _, _, self._c_first, _, _ = struct.unpack_from(
            "=8I", parameters, _COMPLETION_OFFSETS
        )
        self._submissions = self._mapped(_SQ_RING, array + 4 * entries)
        self._completions = self._mapped(_CQ_RING, self._c_first + completions * _COMPLETION.size)
        self._entries = self._mapped(_ENTRIES, entries * _SUBMISSION.size)
        self._mask, self._c_mask = _word(self._submissions, mask), _word(self._completions, c_mask)
        for place in range(entries):
            struct.pack_into("=I", self._submissions, array + 4 * place, place)
        self._asked = 0

    def _mapped(self, what: int, size_bytes: int) -> mmap.mmap:
        return mmap.mmap(self._ring, size_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=what)

    def ask(self, slot: int, file: int, offset: int, address: int, size_bytes: int) -> None:
        """A read, at most UNDER_WAY under way at a time. slot: by which its answer names it."""
        tail = _word(self._submissions, self._tail)
        at = (tail & self._mask) * _SUBMISSION.size
        _SUBMISSION.pack_into(self._entries, at, _READ, 0, 0, file, offset, address, size_bytes, 0, slot)
        struct.pack_into("=I", self._submissions, self._tail, (tail + 1) & 0xFFFFFFFF)
        self._asked += 1

    def answers(self) -> Iterator[tuple[int, int]]:
        """Slot and bytes read, or the negative error, of at least one of the reads under way. Raises OSError."""
        while (taken := _libc.syscall(_ENTER, self._ring, self._asked, 1, _GETEVENTS, None, 0)) < 0:
            if (number := ctypes.get_errno()) != errno.EINTR:
                raise OSError(number, os.strerror(number))
        self._asked -= taken
        head, tail = _word(self._completions, self._c_head), _word(self._completions, self._c_tail)
        while head != tail:
            at = self._c_first + (head & self._c_mask) * _COMPLETION.size
            answer = _COMPLETION.unpack_from(self._completions, at)
            head = (head + 1) & 0xFFFFFFFF
            struct.pack_into("=I", self._completions, self._c_head, head)
            yield answer


def _word(memory: mmap.mmap, at: int) -> int:
    found: int
    (found,) = struct.unpack_from("=I", memory, at)
    return found


def _refusal(number: int) -> str:
    """Why there is no io_uring here."""
    missing: dict[str, str] = {}
    disabled = attempt(missing, "disabled", lambda: read_number(Path("/proc/sys/kernel/io_uring_disabled")))
    filtered = attempt(missing, "seccomp", lambda: labelled_value(Path("/proc/thread-self/status"), "Seccomp"))
    found = [
        f"kernel.io_uring_disabled is {disabled if disabled is not None else 'not there'}",
        f"Seccomp is {filtered if filtered is not None else 'unknown'}" + (" (a filter)" if filtered == "2" else ""),
    ]
    name = errno.errorcode.get(number, str(number))
    return f"io_uring_setup: {name}; {', '.join(found)}: ask for access=buffered, or let the filter allow io_uring"
