"""What a process may ask the kernel to change of itself for good: prctl(2)."""

from __future__ import annotations

import ctypes
import os

SET_TIMERSLACK, GET_TIMERSLACK, SET_THP_DISABLE, GET_THP_DISABLE, SET_MDWE = 29, 30, 41, 42, 65
"""By linux/prctl.h."""
MDWE_REFUSE_EXEC_GAIN = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int = 0) -> int:
    """Raises OSError where the kernel refuses, as one that does not know the option does (EINVAL)."""
    found: int = _LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found
