"""The exception tree. A message says what was asked, what was found, and what to do.

PrimbenchError              exit code 1
|-- InvalidRequest          exit code 2: the request itself is wrong
|   |-- InvalidField        a field or argument that cannot be so
|   |-- BackendUnavailable  a named backend is not installed or does not reach the device
|   |-- PlacementError      CPUs, a memory node or a device that cannot be had
|   `-- FileError           a suite or results file that cannot be read
|-- OutputError             what was measured cannot be written: disk full, no permission
|-- UnsupportedCase         a backend has no such operation: the case is skipped with this reason
|   `-- KernelUnavailable   what a kernel is made by is not installed, or does not reach the device
|-- ImageError              a container image could not be built
|-- VerificationError       the output is wrong: the case fails and its time is not shown
`-- WorkerError             a worker process could not be started or spoke out of turn
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

INTERRUPTED = 130
"""Exit code where Ctrl-C ended it."""

_LEAST_LIKENESS = 0.7  # by less, "until" looks like "title"
_LEAST_PART = 4  # letters
_LONGEST_NAME = 100  # that a file may hold a word of megabytes costs nothing


class PrimbenchError(Exception):
    """Base of everything primbench raises on purpose."""

    exit_code = 1
    reason: str
    """The message without the arm's name."""

    def __init__(self, reason: str = "", *, arm: str | None = None):
        self.reason = reason
        super().__init__(reason if arm is None else f"arm {arm}: {reason}")


class InvalidRequest(PrimbenchError):
    exit_code = 2


class InvalidField(InvalidRequest):
    """Names fields and arguments as Python has them, NAME=VALUE; the command line words those as its options."""


class BackendUnavailable(InvalidRequest):
    pass


class PlacementError(InvalidRequest):
    """asked: the fields of a placement that cannot be had, or a device, which stand before the words, as NAME=VALUE.

    are_together: each of them could be had without the others.
    """

    def __init__(self, words: str, asked: Mapping[str, object] = MappingProxyType({}), *, are_together: bool = False):
        self.words, self.asked, self.are_together = words, {**asked}, are_together
        super().__init__(self.said("{}={}".format))

    def said(self, written: Callable[[str, object], str]) -> str:
        """The message. written: how it names a field and its value, as an option of a command or a key of an arm."""
        first, *others = [written(*each) for each in self.asked.items()] or [""]
        named = f"{first} with {' and '.join(others)}" if self.are_together else " ".join([first, *others])
        return f"{named}: {self.words}" if named else self.words


class FileError(InvalidRequest):
    pass


class OutputError(PrimbenchError):
    pass


class ImageError(PrimbenchError):
    pass


class UnsupportedCase(PrimbenchError):
    pass


class KernelUnavailable(UnsupportedCase):
    pass


class VerificationError(PrimbenchError):
    pass


class WorkerError(PrimbenchError):
    pass


def cut(quoted: str, most: int = 300) -> str:
    """A file or an error may hold a word of megabytes; a message may not."""
    return quoted if len(quoted) <= most else quoted[: most - 3] + "..."


def near(name: str, known: Iterable[str]) -> str:
    """For a message about a name that is not known: "did you mean gemm? " where one looks like it or contains it."""
    import difflib  # takes a while, and most names are right

    names = list(known)
    alike = difflib.get_close_matches(name[:_LONGEST_NAME], names, n=1, cutoff=_LEAST_LIKENESS)
    found = alike or [each for each in names if len(name) >= _LEAST_PART and name in each]
    return f"did you mean {found[0]}? " if found else ""
