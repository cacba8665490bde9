"""System calls that are refused to this process, mostly by a filter: told by name, which Python's errors leave out."""

from __future__ import annotations

import contextlib
import errno
import linecache
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.system.files import attempt, labelled_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.errors import PrimbenchError

_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
_FILTERED = "2"  # proc(5)


@contextlib.contextmanager
def refused_calls_named(kind: Callable[[str], PrimbenchError]) -> Iterator[None]:
    """A call that is refused inside becomes an error of that kind. What is refused of a file stays as it is."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _REFUSED:
            raise
        raise kind(_in_words(error, error.errno)) from None


def _in_words(error: OSError, code: int) -> str:
    filtered = attempt({}, "Seccomp", lambda: labelled_value(Path("/proc/self/status"), "Seccomp")) == _FILTERED
    mend = "see `primbench doctor` for what confines this process"
    if filtered:
        mend = "a seccomp filter stands before this process: allow the call in its profile, or use seccomp=unconfined"
    return f"{_called(error)} is refused with {errno.errorcode[code]} ({error.strerror}): {mend}"


def _called(error: OSError) -> str:
    """What was called where the error came up, by the source: a function in C has no line of a traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).encode()[last.colno or 0 :].decode(errors="replace")
    found = re.match(r"(?:\w+\.)*(\w+)\(", line)
    return found[1] if found else last.name
