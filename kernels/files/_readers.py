"""Several readers at once: threads of this process, or processes of their own, which wait between two calls."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from typing import TYPE_CHECKING, Any, Protocol

from primbench.distributed.child import Child
from primbench.errors import PrimbenchError
from primbench.kernels.files._reader import open_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.kernels.files._reader import Reader, Share

Answer = list[int] | Exception
"""The sums of a share, as Reader has them, or what it ended with."""


class Team(Protocol):
    """A call has all readers go through their shares, and returns the sums of each.

    It raises what a reader met with, PrimbenchError where one died.
    """

    def __call__(self, *, sums: bool) -> list[list[int]]: ...


class _Member(Protocol):
    def ask(self, *, sums: bool) -> None: ...

    def answer(self) -> Answer: ...


def team_of(shares: Sequence[Share], kind: str, opened: contextlib.ExitStack) -> Team:
    """kind: "thread" or "process". opened: ends them."""
    members: list[_Member]
    if kind == "process":
        members = [_Process(share, opened) for share in shares]
    else:
        readers = [open_share(share, opened) for share in shares]
        if len(readers) == 1:
            return lambda *, sums: [readers[0](sums=sums)]
        members = [_Thread(reader, opened) for reader in readers]

    def call(*, sums: bool) -> list[list[int]]:
        for member in members:
            member.ask(sums=sums)
        answers = [member.answer() for member in members]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if not isinstance(answer, Exception)]

    return call


class _Thread:
    def __init__(self, read: Reader, opened: contextlib.ExitStack) -> None:
        asked: queue.SimpleQueue[bool | None] = queue.SimpleQueue()  # None ends the thread
        answered: queue.SimpleQueue[Answer] = queue.SimpleQueue()

        def serve() -> None:
            while (sums := asked.get()) is not None:
                answered.put(answer_of(read, sums=sums))

        self._asked, self._answered = asked, answered
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        opened.callback(thread.join)
        opened.callback(asked.put, None)

    def ask(self, *, sums: bool) -> None:
        self._asked.put(sums)

    def answer(self) -> Answer:
        return self._answered.get()


class _Process:
    """Its messages are pickled one after the other, the share first."""

    def __init__(self, share: Share, opened: contextlib.ExitStack) -> None:
        self._child = Child("reader", "primbench.kernels.files._process", verbose=False)
        opened.callback(self._child.end)
        self._say(share)

    def _say(self, message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # answer() tells what it died of
            self._child.write(pickle.dumps(message))

    def ask(self, *, sums: bool) -> None:
        self._say(sums)

    def answer(self) -> Answer:
        assert self._child.process.stdout is not None
        try:
            found: Answer = pickle.load(self._child.process.stdout)
        except (EOFError, pickle.UnpicklingError):  # the latter in the middle of an answer
            return PrimbenchError(self._child.cause_of_death())
        return found


def answer_of(read: Reader, *, sums: bool) -> Answer:
    try:
        return read(sums=sums)
    except Exception as error:  # raised again where the call was made
        return error
