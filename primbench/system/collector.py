"""Python's collector of garbage, which rests while modules are imported, and how it was found before.

Imports make tens of thousands of objects, frameworks hundreds of thousands, and next to none of them is garbage.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_found: list[str] = []


def rest(objects: int | None = None) -> None:
    """Have it off, or look for garbage no sooner than after so many objects, until collect_again()."""
    _found.append(in_words())
    if objects is None:
        gc.disable()
    else:
        gc.set_threshold(objects)


def collect_again() -> None:
    """Where it was off. What there is by now is never looked through: it would take 50 ms after every case."""
    _found.clear()
    gc.freeze()
    gc.enable()


@contextlib.contextmanager
def looking_at_new() -> Iterator[None]:
    """What there is by now is not looked through inside: with torch that takes 0.14 s each time."""
    is_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()


def in_words() -> str:
    """As Python, or what it ran at its start, had set it."""
    if _found:
        return _found[0]
    return f"after {gc.get_threshold()}" if gc.isenabled() else "off"
