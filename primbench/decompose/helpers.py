"""Threads that a step starts to compute for it, as torch.nn.DataParallel does for each GPU."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from primbench.decompose.written import CapturedStep


@contextlib.contextmanager
def following_helpers(
    step: CapturedStep, starts: Callable[[], bool], helping: Callable[[], AbstractContextManager[object]]
) -> Iterator[None]:
    """Inside, a thread counts as the step's and runs in what ``helping`` returns that is started while ``starts`` is
    true, or by one of these.
    """
    original, helpers = threading.Thread.start, set[threading.Thread]()

    @functools.wraps(original)
    def start(thread: threading.Thread) -> None:
        if starts() or threading.current_thread() in helpers:
            helpers.add(thread)
            step.helpers += 1
            thread.run = _within(helping, thread.run)  # type: ignore[method-assign]
        original(thread)

    threading.Thread.start = start  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]


def _within(helping: Callable[[], AbstractContextManager[object]], run: Callable[[], None]) -> Callable[[], None]:
    def running() -> None:
        with helping():
            run()

    return running
