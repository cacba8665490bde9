"""Whether code that is compiled while a program runs may be executed."""

from __future__ import annotations

import ctypes
import errno
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
