"""The three standard streams of the program, as they are handed to it: closed, full, or with nobody at their ends."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

from primbench.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def take_over() -> None:
    """Make sure that all three are there, and that what can go wrong with them is told apart from other files.

    One that was closed reads as empty and cannot be written; a file opened later would take its number, and be written
    to. Nobody is told that standard error is lost: there is nobody to tell.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Remarks(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    encoding, errors = (before.encoding, before.errors) if before else ("utf-8", "backslashreplace")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True)


class _Output(io.FileIO):
    """Standard output."""

    def write(self, data: ReadableBuffer) -> int:
        """Raises OutputError where it cannot be written, and BrokenPipeError where nobody reads it."""
        try:
            while (taken := super().write(data)) is None:  # a pipe that somebody set to be non-blocking is full
                import select

                select.select([], [self], [])
        except OSError as error:
            _lose(self)  # what is buffered would fail once more when the process ends
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"stdout: {error.strerror}") from None
        return taken


class _Remarks(_Output):
    """Standard error: what cannot be said is left unsaid."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except (BrokenPipeError, OutputError):
            return memoryview(data).nbytes


def _lose(stream: io.FileIO) -> None:
    """What is written from now on is lost without an error."""
    with open(os.devnull, "wb") as nobody:
        os.dup2(nobody.fileno(), stream.fileno())
