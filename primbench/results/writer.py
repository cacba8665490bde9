"""Results files as they grow: whole lines only, and what of a file that is gone on with is left to do."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.errors import FileError, OutputError
from primbench.registry import named_files
from primbench.results.file import Results, encode
from primbench.results.record import SCHEMA_VERSION, Header, Line, Record, Worker
from primbench.spec.confidential import hidden, hidden_command, hidden_labels
from primbench.system import outputs
from primbench.system.files import utf8
from primbench.system.jsonlines import decompress, is_compressed
from primbench.system.locks import holder, lock
from primbench.system.said import LINE_BYTES
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.spec.captured import Captured
    from primbench.spec.case import Case
    from primbench.spec.fleet import Member


class Writer:
    """Appends lines to a results file, as they come, and leaves only whole lines behind. The file is its alone."""

    def __init__(self, path: str | os.PathLike[str], header: Header | None, *, overwrite: bool = False) -> None:
        """header: of a file to make; None adds to the one that is there. overwrite: a regular file is removed first.

        Raises FileError where the file to make exists or cannot be made, or the other is compressed, cannot be
        written, or is written to by another process; OutputError where not even the header fits, and then leaves no
        file.
        """
        self.path = Path(path)
        if header is None and self.path.is_fifo():  # which would be waited for
            raise FileError(f"{path}: a pipe, and only a results file can be gone on with")
        if header is None and is_compressed(self.path):
            raise FileError(f"{path}: is compressed, and cannot be added to: {decompress(self.path)}, and resume that")
        if header is not None and overwrite and outputs.is_file(self.path):
            self._open(os.O_WRONLY)  # another process may write to it
            os.unlink(self.path)
            self.close()
        self._open(os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if header else 0))
        self._size_bytes = os.fstat(self._file).st_size
        if header is not None:
            self._begin(header)

    def _open(self, flags: int) -> None:
        try:
            self._file = os.open(self.path, flags, 0o666)
        except FileExistsError:
            raise FileError(f"{self.path}: exists; name another file") from None
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from None
        self._hold()

    def _hold(self) -> None:
        try:
            reason = (
                None if lock(self._file) is not False else f"{holder(self._file)} is writing to it: wait for its end"
            )
        except OSError as error:
            reason = f"cannot be locked: {error.strerror}"
        if reason is not None:
            self.close()
            raise FileError(f"{self.path}: {reason}")

    def _begin(self, header: Header) -> None:
        try:
            self._append(encode(header))
        except OSError as error:
            os.unlink(self.path)
            self.close()
            raise OutputError(f"{self.path}: {error.strerror}; nothing was measured") from None

    def write(self, line: Worker | Record) -> None:
        """Raises OutputError on a full disk, with the part of the line that did fit taken back if possible.

        Also for a line that is longer than who reads the file takes.
        """
        text = encode(line)
        if len(text) > LINE_BYTES:
            size, most = format_bytes(len(text)), format_bytes(LINE_BYTES)
            raise OutputError(f"{self.path}: a case's line has {size}, and may have {most}: shorten --max-time")
        try:
            self._append(text)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}; it holds every case finished before this one") from None

    def loss(self) -> str | None:
        """What became of the file, in words, where it is not there any more as this writer left it."""
        own = os.fstat(self._file)
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return "was removed or renamed"
        except OSError:
            return None  # a folder that may not be entered any more says nothing of the file
        if not os.path.samestat(own, there):
            return "was replaced by another file"
        if own.st_size < self._size_bytes:
            return "was cut"
        return "was added to by another program" if own.st_size > self._size_bytes else None

    def _take_back(self, end: int) -> None:
        """What was written from there on. Raises OutputError where that stays, and says how to be rid of it."""
        try:
            os.ftruncate(self._file, end)
        except OSError as error:
            if end:  # a file with less than a header in it is removed
                whole = f"head -c {end} {shlex.quote(str(self.path))} > whole.jsonl"
                raise OutputError(
                    f"{self.path}: its last line is cut off, and cannot be taken back: {error.strerror}; to keep the "
                    f"whole lines before it: {whole}"
                ) from None

    def _append(self, text: bytes) -> None:
        """Write all of the text, or nothing. Raises OSError; a signal in between leaves nothing, too."""
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            while text:  # a disk that is nearly full takes a part, and tells the reason at the next part
                text = text[os.write(self._file, text) :]
        except BaseException:
            self._take_back(end)
            raise
        self._size_bytes = os.lseek(self._file, 0, os.SEEK_CUR)

    def close(self) -> None:
        os.close(self._file)


def header(
    command: list[str],
    labels: Mapping[str, str],
    member: Member | None = None,
    captured: Mapping[str, Captured] | None = None,
) -> Header:
    """The header of a new results file: this process's environment, secrets hidden, the time now."""
    return Header(
        schema_version=SCHEMA_VERSION,
        command=hidden_command(map(utf8, command)),
        started_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        labels=hidden_labels({utf8(name): utf8(value) for name, value in labels.items()}),
        environment=fingerprint.collect(gpus=False),
        kernels={utf8(path): sha256 for path, sha256 in named_files().items()},
        member=member,
        captured={
            hidden(utf8(title)): replace(each, step=hidden(each.step)) for title, each in (captured or {}).items()
        },
    )


def left_to_do(cases: Sequence[Case], held: Results) -> list[Case]:
    """The cases that a results file does not hold yet, one that stands twice in ``cases`` twice.

    A case that failed there is tried again.
    """
    done = Counter(record.case.key() for record in held.latest() if record.status != "failed")
    left = []
    for case in cases:
        if done[case.key()]:
            done[case.key()] -= 1
        else:
            left.append(case)
    return left


def keep(lines: Iterable[Worker | Record], writer: Writer | None, found: Results) -> None:
    """Add the lines to ``found``, each once it is written to the results file.

    Raises OutputError where it cannot be written, or as check_kept() does.
    """
    for line in lines:
        if writer is not None and writer.loss() is None:
            writer.write(line)
        found.add(line)
        check_kept(writer, found)


def check_kept(writer: Writer | None, found: Results) -> None:
    """Raises OutputError where the results file is not there any more as it was left, with where its lines are now."""
    loss = None if writer is None else writer.loss()
    if writer is None or loss is None:
        return
    try:
        kept = f"all that was measured is in {_saved(writer.path, found)}"
    except OSError as error:
        kept = f"what was measured cannot be kept elsewhere: {error.strerror}"
    raise OutputError(f"{writer.path}: {loss} while it was written to; {kept}")


def _saved(path: Path, found: Results) -> str:
    """Beside the file, or where temporary files go: the new file that holds all. Raises OSError."""
    try:
        file, name = tempfile.mkstemp(path.suffix, f"{path.stem}-", path.parent)
    except OSError:
        file, name = tempfile.mkstemp(path.suffix, f"{path.stem}-")
    lines: list[Line] = [found.header, *found.workers, *found.records]
    with open(file, "wb") as sink:
        sink.writelines(map(encode, lines))
    return name
