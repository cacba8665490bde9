"""Files of a case: a folder for them, of which nothing is left however this process ends, and having them read anew."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.environment.filesystems import filesystem_of
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.system.locks import lock
from primbench.system.page_cache import COLD, drop, held_share
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PREFIX = "primbench-files-"
_NEW = "primbench-new-"
_NO_FOLDER = (
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
_WAYS_OUT = {
    **dict.fromkeys(_NO_FOLDER, "in every arm it takes a folder that can be written to: another path or TMPDIR"),
    errno.EFBIG: "RLIMIT_FSIZE, or the file system, allows no file so large",
    errno.EMFILE: "RLIMIT_NOFILE allows no more open files: fewer files or readers",
    errno.ENOSPC: "smaller or fewer files, or another path or TMPDIR",
    errno.EDQUOT: "the quota is used up: smaller or fewer files, or another path or TMPDIR",
}
BLOCK_BYTES = 4096  # of a file system: a file takes whole ones
SPARE = 1.05  # times the bytes, for what a file system keeps of its own beside them
# Ctrl-C kills a worker with all its group, so that the folder is removed by a process of another one, which the end of
# its input tells that the worker is gone.
_REMOVES = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class DataFolder:
    """A new folder in ``parent``, or in what TMPDIR names where that is "", until remove() or the end of this process.

    path: its name. where: the kind of file system and where that is mounted.
    """

    def __init__(self, parent: str) -> None:
        """Raises PrimbenchError where there is no such folder, or it cannot be written to."""
        self.path = self._made_in(parent or os.environ.get("TMPDIR") or "/tmp")
        self.where = filesystem_of(self.path, Path("/")) or "an unknown file system"

    def _made_in(self, parent: str) -> str:
        with said(parent), contextlib.ExitStack() as undone:
            made = tempfile.mkdtemp(prefix=_NEW, dir=parent)
            path = os.path.join(parent, PREFIX + os.path.basename(made).removeprefix(_NEW))
            undone.callback(shutil.rmtree, made, ignore_errors=True)
            held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            undone.callback(os.close, held)
            with contextlib.suppress(OSError):  # NFS locks no folders, and then nobody removes what is left behind
                lock(held)
            remover = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REMOVES, path],
                stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            os.rename(made, path)  # once it is locked, so that no other process takes it for left behind
            undone.pop_all()
        self._remover, self._held = remover, held
        sweep(parent)
        return path

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._held)
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        self._remover.kill()  # a process that was forked since may still hold its input open
        self._remover.wait()

    def check_space(self, files: int, size_bytes: int) -> None:
        """Raises UnsupportedCase where so many files of so many bytes together do not fit."""
        there = os.statvfs(self.path)
        free_bytes = there.f_bavail * there.f_frsize
        need_bytes = int(SPARE * size_bytes) + files * BLOCK_BYTES
        if need_bytes > free_bytes:
            need, free = format_bytes(need_bytes), format_bytes(free_bytes)
            raise UnsupportedCase(
                f"needs {need} of {self.where}, {free} free: smaller or fewer files, or another path or TMPDIR"
            )
        if there.f_files and files >= there.f_favail:  # a file system that has any number of them says 0
            raise UnsupportedCase(f"needs {files} files of {self.where}, which has room for {there.f_favail}")


def sweep(parent: str) -> None:
    """Remove folders that nobody holds any more: in a container the process that removes them is killed as well."""
    for folder in Path(parent).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(opened).st_uid == os.geteuid() and lock(opened):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(opened)


@contextlib.contextmanager
def said(path: str) -> Iterator[None]:
    """What the system refuses inside becomes one line that names the path it was asked for."""
    try:
        yield
    except OSError as error:
        words = filter(None, [f"files in {path}: {error.strerror}", _WAYS_OUT.get(error.errno or 0)])
        raise PrimbenchError(": ".join(words)) from None


def cooling(where: str, paths: Sequence[str]) -> Callable[[], None]:
    """What makes the files cold, as they are by now. where: the file system, in words.

    Raises UnsupportedCase where that keeps them in memory all the same.
    """

    def cool() -> None:
        drop(paths)
        if (share := held_share(paths)) > COLD:
            raise PrimbenchError(f"{format_percent(share)} of the files stay in the page cache of {where}")

    try:
        cool()
    except OSError as error:  # as where a file system maps no files
        refusal = f"what {where} keeps in memory cannot be seen: {error.strerror}"
    except PrimbenchError as error:
        refusal = str(error)
    else:
        return cool
    raise UnsupportedCase(f"{refusal}: ask for page_cache=warm, or another path")
