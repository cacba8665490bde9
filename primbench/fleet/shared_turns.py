"""One process at a time, of several on any hosts that share a folder, first come, first served.

Turns are files 1, 2, 3 and so on. Who makes one has that turn, writes into it which file it grows meanwhile, and adds a
line at its end. All others wait for that line, or until its owner must be gone: it gives no more signs of life, or the
file has not grown for too long.
Nothing is removed, so that nobody can take away what another one has just made; and files are opened anew at each look,
which is when NFS asks its server what they hold.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from primbench.errors import OutputError
from primbench.fleet.signs import Patience, size_bytes
from primbench.system.inputs import content
from primbench.system.outputs import note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOK_S = 0.2
MOST_LOOKS_PER_S = 500  # of all that wait, together
_OVER = b"over\n"


@contextmanager
def turn(folder: Path, growing: Path, *, of: int, patience_s: float) -> Iterator[None]:
    """Waits for a turn, and has it inside of the block.

    folder: of the turns, made where it is missing. growing: what this process grows while it has its turn. of: how many
    wait at most. patience_s: after so long without growth the turn of an owner that lives is over. Raises OutputError
    where the folder cannot be written to.
    """
    try:
        folder.mkdir(exist_ok=True)
        own = _first_free(folder, growing, max(LOOK_S, of / MOST_LOOKS_PER_S), patience_s)
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}: nodes cannot take turns by it") from None
    try:
        yield
    finally:
        _end(own)


def _first_free(folder: Path, growing: Path, look_s: float, patience_s: float) -> Path:
    """Raises OSError."""
    for number in itertools.count(1):
        one = folder / str(number)
        try:
            made = os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            _wait_for(one, look_s, patience_s)
            continue
        with open(made, "wb") as file:
            file.write(f"{growing.name}\n".encode())
        return one
    raise AssertionError("there are more numbers")


def _wait_for(one: Path, look_s: float, patience_s: float) -> None:
    """Returns once that turn is over, and says so in it where its owner did not. Raises OSError."""
    patience = Patience(patience_s)
    while True:
        text = content(one)
        if text.endswith(_OVER):
            return
        growing = one.parent.parent / os.fsdecode(text.strip()) if text.strip() else None
        if patience.is_over((text, size_bytes(growing) if growing else 0), growing):
            _end(one)
            return
        time.sleep(look_s)


def _end(one: Path) -> None:
    """Raises OSError."""
    note(one, _OVER)
