"""Where the sockets lie by which a DataLoader's workers hand over what they loaded."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

from primbench.timing.files import DataFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 107  # of a socket's path, by Linux
NAME = "/listener-xxxxxxxx"  # as multiprocessing calls it


@contextlib.contextmanager
def sockets_kept(workers: int, opened: contextlib.ExitStack) -> Iterator[None]:
    """While workers start: each makes its sockets in one folder, which is removed when ``opened`` is closed.

    Else, and where that has too long a name, each makes a folder of its own in TMPDIR, and leaves it there where it is
    killed, as Ctrl-C does. Raises PrimbenchError where no folder can be made.
    """
    if not workers:
        yield
        return
    folder = DataFolder("")
    opened.callback(folder.remove)
    this: Any = multiprocessing.current_process()
    config = this._config  # noqa: SLF001  # has no public name; workers get a copy
    before = config.get("tempdir")
    if len(os.fsencode(folder.path + NAME)) <= MOST_BYTES:
        config["tempdir"] = folder.path
    try:
        yield
    finally:
        config["tempdir"] = before
