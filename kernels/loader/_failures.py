"""What torch's DataLoader says of its workers."""

from __future__ import annotations

import contextlib
import signal
import threading
import warnings
from typing import TYPE_CHECKING

from primbench.errors import PrimbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator


TORCH = "torch.utils.data._utils.signal_handling"


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """While workers start."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than CPUs, as asked
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")  # torch does, as ever
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """While workers start: their death is told by the next batch, and not by a signal that raises anywhere."""
    before = signal.getsignal(signal.SIGCHLD)
    if getattr(before, "__module__", None) == TORCH:  # of a loader that was begun elsewhere
        before = signal.SIG_DFL
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, before)


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """What torch says of a worker's death is its traceback: the last line has the reason."""
    try:
        yield
    except RuntimeError as error:
        last = str(error).strip().splitlines()[-1]
        raise PrimbenchError(f"DataLoader: {last}: see /dev/shm, and the limits of `ulimit -a`") from error
