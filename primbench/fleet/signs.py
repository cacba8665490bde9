"""Signs of life between processes that see one folder and know each other by their results files.

Beside its results each has a file that grows by a byte every two seconds while it lives, whatever it is doing. Who
waits for one that was killed, or whose host is gone, knows within half a minute. What hangs lives, and is given up once
its work has not grown for longer than that may take. Files are closed after each sign and opened anew at each look,
which is when NFS tells its server, and asks it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from primbench.errors import OutputError
from primbench.system import inputs
from primbench.system.outputs import note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EACH_S = 2.0
LOST_S = 25.0  # without a sign


@contextmanager
def signs_of_life(results: Path) -> Iterator[None]:
    """Given inside of the block. results: beside which. Raises OutputError where they cannot be."""
    path, is_over = _beside(results), threading.Event()
    try:
        note(path, b".", anew=True)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None

    def give() -> None:
        while not is_over.wait(EACH_S):
            with contextlib.suppress(OSError):  # a full disk is told of by the results
                note(path, b".")

    giving = threading.Thread(target=give, daemon=True)
    giving.start()
    try:
        yield
    finally:
        is_over.set()
        giving.join()
        path.unlink(missing_ok=True)


class Patience:
    """With one other process: it ends where that gives no more signs of life, or does nothing for ``patience_s``."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._work, self._signs = _Still(), _Still()
        self._has_lived = False

    def is_over(self, work: object, results: Path | None) -> bool:
        """work: what it has done, by anything that changes when it does more. results: its file, once that is known."""
        signs = size_bytes(_beside(results)) if results else 0
        self._has_lived |= signs > 0
        still_s, silent_s = self._work.since_s(work), self._signs.since_s(signs)
        return still_s > self._patience_s or (self._has_lived and silent_s > LOST_S)


class _Still:
    """Since when a value is as it is."""

    def __init__(self) -> None:
        self._seen: object = self
        self._changed_s = 0.0

    def since_s(self, value: object) -> float:
        if value != self._seen:
            self._seen, self._changed_s = value, time.monotonic()
        return time.monotonic() - self._changed_s


def size_bytes(path: Path) -> int:
    """0 where it is not there yet."""
    try:
        return inputs.size_bytes(path)
    except OSError:
        return 0


def _beside(results: Path) -> Path:
    return results.with_name(f"{results.name}.alive")
