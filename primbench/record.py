"""Results files: JSON Lines, a Header first, then Worker and Record lines as they happen.

Schema history
1: first version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from primbench.environment import Environment
from primbench.errors import FileError, OutputError, PrimbenchError
from primbench.measurement import Measurement, Method
from primbench.placement import EffectivePlacement, Placement
from primbench.problem import Problem, Value, build

SCHEMA_VERSION = 1
MAX_LINE_BYTES = 64 * 2**20


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One problem on one backend and device, and how to measure it.

    parameters: every field of the problem. labels: where the problem comes from (set, application, id).
    process: which of the repeated fresh processes this is, from 0.
    """

    primitive: str
    parameters: dict[str, Value]
    backend: str
    device: str
    method: Method = Method()
    placement: Placement = Placement()
    labels: dict[str, str] = {}
    process: int = 0

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
    worker: int | None = None
    started_utc: str
    duration_s: float


class Worker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="worker"):
    """One worker process: what it found around itself, and where it was really placed."""

    worker: int
    pid: int
    backend: str
    device: str
    environment: Environment
    placement: EffectivePlacement
    versions: dict[str, str]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line of a results file. The environment is that of the process the user started."""

    schema_version: int
    command: list[str]
    started_utc: str
    labels: dict[str, str]
    environment: Environment


Line = Header | Worker | Record


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole results file."""

    header: Header
    workers: list[Worker]
    records: list[Record]

    def worker_of(self, record: Record) -> Worker | None:
        return next((worker for worker in self.workers if worker.worker == record.worker), None)

    def latest(self) -> list[Record]:
        """One record a case, the last one written, in the order in which the cases first appear."""
        return list({record.case.key(): record for record in self.records}.values())


def encode(line: Line) -> bytes:
    """One line of a results file, with its line end."""
    return msgspec.json.encode(line) + b"\n"


_decoder = msgspec.json.Decoder(Line)


def read(path: str | os.PathLike[str]) -> Results:
    """Read a results file. Raises FileError naming the line that is not as it should be, and what to do."""
    lines = list(_lines(Path(path)))
    if not lines or not isinstance(lines[0], Header):
        raise FileError(f"{path}: not a primbench results file: its first line is no header")
    header = lines[0]
    if header.schema_version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: written with schema {header.schema_version}, this primbench reads up to {SCHEMA_VERSION}: "
            "upgrade primbench"
        )
    return Results(
        header=header,
        workers=[line for line in lines if isinstance(line, Worker)],
        records=[line for line in lines if isinstance(line, Record)],
    )


def _lines(path: Path) -> Iterable[Line]:
    try:
        with path.open("rb") as file:
            number = 0
            while text := file.readline(MAX_LINE_BYTES):
                number += 1
                if not text.endswith(b"\n"):
                    raise FileError(
                        f"{path}:{number}: cut off in the middle of the line; to keep the whole lines before it: "
                        f"head -n {number - 1} {path} > whole.jsonl"
                    )
                try:
                    yield _decoder.decode(text)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, PrimbenchError) as error:
                    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                    raise FileError(f"{path}:{number}: not a line of a results file: {reason}") from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None


class Writer:
    """Appends lines to a results file, each in one write, and leaves only whole lines behind."""

    def __init__(self, path: str | os.PathLike[str], *, append: bool) -> None:
        """Raises FileError where the file exists (unless append) or cannot be written."""
        self._path = path
        flags = os.O_WRONLY | os.O_APPEND | (0 if append else os.O_CREAT | os.O_EXCL)
        try:
            self._file = os.open(path, flags, 0o666)
        except FileExistsError:
            raise FileError(f"{path}: exists; add to it with --resume {path}, or name another file") from None
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from None

    def write(self, line: Line) -> None:
        """Raises OutputError on a full disk, with the part of the line that did fit taken back."""
        text = encode(line)
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            if os.write(self._file, text) == len(text):
                return
            reason = "no space left on device"
        except OSError as error:
            reason = error.strerror or str(error)
        os.ftruncate(self._file, end)
        raise OutputError(f"{self._path}: {reason}; it holds every case finished before this one")

    def close(self) -> None:
        os.close(self._file)


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a results file."""
    document = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "primbench results line",
    } | document
