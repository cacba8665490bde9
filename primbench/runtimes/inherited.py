"""What a process hands on to all that it starts, a container's processes among them where its runtime starts them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from primbench.runtimes.table import runtime_of
from primbench.spec.arm import Arm, asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def of_process(arm: Arm) -> Iterator[tuple[str, Callable[[], None]]]:
    """What an arm has a process take by itself: all that its runtime has no way of its own for, each in words.

    The process that calls one takes that, and raises OSError or ValueError where Linux refuses it.
    """
    own = runtime_of(arm).mechanisms - {"process"}
    for row, value in asked(arm, "process"):
        if row.process is not None and row.mechanisms.isdisjoint(own):
            yield row.said(value), partial(row.process, value)
