"""One process at a time has a file or a folder: flock(2), which the kernel gives back however its holder ends.

On NFS Linux makes it a lock of the server's, which other hosts heed, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def lock(descriptor: int) -> bool | None:
    """Whether the file is this process's now, until it closes it; None where the file system has no locks.

    On NFS the file has to be open for writing. Raises OSError.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


def is_held(path: str) -> bool:
    """Whether some process has the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return lock(descriptor) is False
    finally:
        os.close(descriptor)


def holder(descriptor: int, root: Path = Path("/")) -> str:
    """Who has it, in words: the kernel names processes of this machine and of this process's namespace alone."""
    status = os.fstat(descriptor)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = (root / "proc/locks").read_text().splitlines()
    except OSError:
        lines = []
    pids = [words[4] for words in map(str.split, lines) if words[5:6] == [file] and words[1] == "FLOCK"]
    return f"process {pids[0]}" if pids else "another process"
