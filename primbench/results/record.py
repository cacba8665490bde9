"""Results files: JSON Lines, a Header first, then Worker and Record lines as they happen.

One that is compressed by xz, as the kept ones are, is read all the same.

Schema history
1: first version. Added since: Measurement.others, Measurement.refused_calls, Case.arm, Worker.arm, Header.study,
Study.other_builds, Samples.loops_s, HostReading.quota_periods, HostReading.throttled_periods, HostReading.slow_cpus,
Node.initiators, Placement.cpu_kind, Machine.cpu_kinds, Machine.last_level_caches, Arm.passed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from primbench.environment import Environment
from primbench.errors import FileError, OutputError, PrimbenchError
from primbench.measurement import Measurement, Method
from primbench.numa.placement import EffectivePlacement, Placement
from primbench.problem import Problem, Value, build
from primbench.quantities import Time, Whole
from primbench.spec.arm import Arm
from primbench.system.jsonlines import UNREADABLE, decompress, is_compressed, whole_lines
from primbench.system.locks import holder, lock

if TYPE_CHECKING:
    import pandas

SCHEMA_VERSION = 1
MAX_QUOTED = 200


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One problem on one backend and device, and how to measure it.

    parameters: every field of the problem. labels: where the problem comes from (set, application, id).
    process: which of the repeated fresh processes this is, from 0. arm: where the worker runs, by the name of one of a
    study's arms; "" outside of studies.
    """

    primitive: str
    parameters: dict[str, Value]
    backend: str
    device: str
    method: Method = Method()
    placement: Placement = Placement()
    labels: dict[str, str] = {}
    process: Whole = 0
    arm: str = ""

    @property
    def ranks(self) -> int:
        """Processes that take part in a call: the field of that name, in problems that have it."""
        found = self.parameters.get("ranks", 1)
        return found if isinstance(found, int) else 1

    def problem(self) -> Problem:
        """Raises InvalidRequest where the fields do not make a problem."""
        return build(self.primitive, self.parameters)

    def key(self) -> bytes:
        """Equal for two cases exactly when they ask for the same thing."""
        return msgspec.json.encode(self, order="deterministic")


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="record"):
    """What became of a case. ``worker`` is the number of the Worker line that tells where it ran.

    status: "ok", "skipped" (reason: no such operation, does not fit, hopeless) or "failed" (reason: error, wrong
    result, crash, timeout). duration_s: the whole case, set-up and check included.
    """

    case: Case
    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    measurement: Measurement | None = None
    worker: Whole | None = None
    started_utc: str
    duration_s: Time


class Worker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="worker"):
    """One worker process: what it found around itself, and where it was really placed.

    arm: as it was asked for; None outside of studies.
    """

    worker: Whole
    pid: Whole
    backend: str
    device: str
    environment: Environment
    placement: EffectivePlacement
    versions: dict[str, str]
    arm: Arm | None = None


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """The same cases in several arms, pair after pair of fresh processes.

    arms: the first is the baseline. cases: what each arm runs in each pair, of no arm yet. pairs: at most, with
    until_settled, else exactly. seed: of the order of arms and of cases. other_builds: whether an arm whose framework
    is another build than the baseline's is run, too. notes: what is to be known of the arms.
    """

    title: str = ""
    arms: list[Arm]
    cases: list[Case]
    pairs: Whole
    until_settled: bool = False
    seed: int = 0
    other_builds: bool = False
    notes: list[str] = []


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line of a results file. The environment is that of the process the user started."""

    schema_version: int
    command: list[str]
    started_utc: str
    labels: dict[str, str]
    environment: Environment
    study: Study | None = None


Line = Header | Worker | Record


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole results file."""

    header: Header
    workers: list[Worker]
    records: list[Record]

    def frame(self) -> pandas.DataFrame:
        """The summary of every record as a pandas DataFrame, a row a record. Raises ModuleNotFoundError without it."""
        import pandas

        from primbench.results.summary import flat

        return pandas.DataFrame([flat(record) for record in self.records])

    def add(self, line: Worker | Record) -> None:
        if isinstance(line, Record):
            self.records.append(line)
        else:
            self.workers.append(line)

    def latest(self) -> list[Record]:
        """The records, a failed one replaced by the next try of its case."""
        found: list[Record] = []
        failed_at: dict[bytes, int] = {}
        for record in self.records:
            key = record.case.key()
            place = failed_at.pop(key, len(found))
            found[place : place + 1] = [record]
            if record.status == "failed":
                failed_at[key] = place
        return found


def encode(line: Line) -> bytes:
    """One line of a results file, with its line end."""
    return msgspec.json.encode(line) + b"\n"


class _Version(msgspec.Struct, tag_field="kind", tag="header"):
    """As much of a header as every schema has: a newer one is to be told from a damaged one."""

    schema_version: int


_decode_version = msgspec.json.Decoder(_Version).decode
_decode_line: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
_UNREADABLE = (*UNREADABLE, PrimbenchError)


def read(path: str | os.PathLike[str]) -> Results:
    """Read a results file. Raises FileError naming the line that is not as it should be, and what to do."""
    lines = whole_lines(Path(path))
    results = Results(header=_header(path, next(lines, b"")), workers=[], records=[])
    for number, text in enumerate(lines, 2):
        line = _line(path, number, text)
        if isinstance(line, Header):
            raise FileError(f"{path}:{number}: a second header: two results files in one; keep them apart")
        results.add(line)
    return results


def _header(path: str | os.PathLike[str], text: bytes) -> Header:
    try:
        version = _decode_version(text).schema_version
    except _UNREADABLE:
        raise FileError(f"{path}: not a primbench results file: its first line is no header") from None
    if version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: written with schema {version}, this primbench reads up to {SCHEMA_VERSION}: upgrade primbench"
        )
    header = _line(path, 1, text)
    assert isinstance(header, Header)
    return header


def _line(path: str | os.PathLike[str], number: int, text: bytes) -> Line:
    try:
        return _decode_line(text)
    except _UNREADABLE as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:MAX_QUOTED]
        raise FileError(f"{path}:{number}: not a line of a results file: {reason}") from None


class Writer:
    """Appends lines to a results file, as they come, and leaves only whole lines behind. The file is its alone."""

    def __init__(self, path: str | os.PathLike[str], header: Header | None) -> None:
        """header: of a file to make; None adds to the one that is there.

        Raises FileError where the file to make exists or cannot be made, or the other is compressed, cannot be
        written, or is written to by another process; OutputError where not even the header fits, and then leaves no
        file.
        """
        self.path = Path(path)
        if header is None and is_compressed(self.path):
            raise FileError(f"{path}: is compressed, and cannot be added to: {decompress(path)}, and resume that")
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if header else 0)
        try:
            self._file = os.open(path, flags, 0o666)
        except FileExistsError:
            raise FileError(f"{path}: exists; name another file") from None
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from None
        self._hold()
        self._size_bytes = os.fstat(self._file).st_size
        if header is not None:
            self._begin(header)

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
        """Raises OutputError on a full disk, with the part of the line that did fit taken back if possible."""
        try:
            self._append(encode(line))
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
            if end:  # a file of less than a header goes as a whole
                whole = f"head -c {end} {shlex.quote(str(self.path))} > whole.jsonl"
                raise OutputError(
                    f"{self.path}: its last line is cut off, and cannot be taken back: {error.strerror}; to keep the "
                    f"whole lines before it: {whole}"
                ) from None

    def _append(self, text: bytes) -> None:
        """All of it, or nothing and the OSError that says why; nothing also where a signal comes between."""
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


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a results file."""
    document = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "primbench results line",
    } | document
