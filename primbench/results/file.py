"""Results files: read, checked line by line, and described by a JSON Schema."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import FileError, PrimbenchError
from primbench.measurement import notebook
from primbench.results.alike import Alike
from primbench.results.record import HEADINGS, SCHEMA_VERSION, Header, Line, Record, Worker, as_it_was
from primbench.system.jsonlines import UNREADABLE, is_compressed, whole_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas

MAX_QUOTED = 200
MOST_ROWS = 20  # of a notebook's table


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole results file."""

    header: Header
    workers: list[Worker]
    records: list[Record]

    def frame(self) -> pandas.DataFrame:
        """The summary of every record as a pandas DataFrame, a row a record; what was not measured is nan.

        Raises ModuleNotFoundError where pandas is not installed.
        """
        from primbench.results.summary import flat, frame_of

        return frame_of([flat(record) for record in self.records])

    def __repr__(self) -> str:
        """How many records there are, and what became of them."""
        return f"Results({self._summary()})"

    def _repr_html_(self) -> str:
        """For notebooks: a row a record, of many the first."""
        rows = [record.cells() for record in self.records[:MOST_ROWS]]
        left_out = len(self.records) - len(rows)
        more = f"and {left_out} more: frame() has all" if left_out else ""
        return notebook.table(self._summary(), HEADINGS, rows, more)

    def _summary(self) -> str:
        counts = Counter(record.status for record in self.records)
        words = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no records"
        arms = f", arms {', '.join(arm.name for arm in self.header.study.arms)}" if self.header.study else ""
        return f"{words}, {len(self.workers)} processes{arms}, begun {self.header.started_utc}"

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
            place = failed_at.pop(record.case.key(), len(found)) if failed_at else len(found)
            found[place : place + 1] = [record]
            if record.status == "failed":
                failed_at[record.case.key()] = place
        return found


def encode(line: Line) -> bytes:
    """A line of a results file as UTF-8 JSON, its newline included."""
    return msgspec.json.encode(line) + b"\n"


class _Version(msgspec.Struct, tag_field="kind", tag="header"):
    """The part of a header that all schema versions share, by which a newer file is told from a damaged one."""

    schema_version: int


_decode_version = msgspec.json.Decoder(_Version).decode


_decode_line: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
# A Record, whose fields it shares, but for what takes nine tenths of the time to read.
_Unmeasured = msgspec.defstruct(
    "_Unmeasured",
    [
        (field.name, field.type, *([] if field.required else [field.default]))
        for field in msgspec.structs.fields(Record)
        if field.name != "measurement"
    ],
    kw_only=True, tag_field="kind", tag="record",
)  # fmt: skip
_decode_unmeasured = msgspec.json.Decoder(Header | Worker | _Unmeasured).decode


_UNREADABLE = (*UNREADABLE, PrimbenchError)


def read(path: str | os.PathLike[str], is_whole: Callable[[Record], bool] | None = None) -> Results:
    """Read a results file. is_whole: asked of each record in its order before its measurement is read, which it goes
    without where that is not wanted; None reads all.

    Raises FileError naming the line that is not as it should be, and what to do.
    """
    results, damage = read_in_part(path, is_whole)
    if damage is not None:
        raise damage
    return results


def first_of_each(count: int) -> Callable[[Record], bool]:
    """Tells of records in their order which are among so many first ones of their primitive, as latest() has them."""
    places: Counter[str] = Counter()
    failed_at: dict[bytes, int] = {}

    def is_first(record: Record) -> bool:
        primitive = record.case.primitive
        place = failed_at.pop(record.case.key(), None) if failed_at else None
        if place is None:
            place = places[primitive]
            places[primitive] += 1
        if record.status == "failed":
            failed_at[record.case.key()] = place
        return place < count

    return is_first


def read_in_part(
    path: str | os.PathLike[str], is_whole: Callable[[Record], bool] | None = None
) -> tuple[Results, FileError | None]:
    """What a results file holds before the first line that is not as it should be, and what read() says of that.

    Raises FileError where that is its header.
    """
    lines = whole_lines(Path(path))
    decode = _decode_line if is_whole is None else partial(_decode_as_asked, is_whole)
    results, alike = Results(header=_header(path, next(lines, b"")), workers=[], records=[]), Alike()
    try:
        for number, text in enumerate(lines, 2):
            line = _line(path, number, text, decode)
            if isinstance(line, Header):
                raise FileError(f"{path}:{number}: a second header: two results files in one; keep them apart")
            if isinstance(line, Record):
                alike.add(line)
            results.add(line)
    except FileError as damage:
        return results, damage
    return results, None


def _header(path: str | os.PathLike[str], text: bytes) -> Header:
    if not text:
        raise FileError(f"{path}: not a primbench results file: it is empty")
    try:
        version = _decode_version(text).schema_version
    except _UNREADABLE:
        raise FileError(f"{path}: not a primbench results file, as -o writes it: its first line is no header") from None
    if version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: written with schema {version}, this primbench reads up to {SCHEMA_VERSION}: upgrade primbench"
        )
    header = _line(path, 1, text)
    assert isinstance(header, Header)
    return header


def _decode_as_asked(is_whole: Callable[[Record], bool], text: bytes) -> Line:
    found = _decode_unmeasured(text)
    if isinstance(found, Header | Worker):
        return found
    record = Record(**msgspec.structs.asdict(found))
    return _decode_line(text) if is_whole(record) else record


def _line(
    path: str | os.PathLike[str], number: int, text: bytes, decode: Callable[[bytes], Line] = _decode_line
) -> Line:
    try:
        line = decode(text)
        return as_it_was(line) if isinstance(line, Record) else line
    except _UNREADABLE as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:MAX_QUOTED]
        raise FileError(f"{path}:{number}: not a line of a results file: {reason}{_without(path, number)}") from None


def _without(path: str | os.PathLike[str], number: int) -> str:
    """How to have the other lines, of a file whose header is whole and which sed can read."""
    if number == 1 or not os.path.isfile(path) or is_compressed(Path(path)):
        return ""
    return f"; to do without it, and keep the file as it is as .bak: sed -i.bak {number}d {shlex.quote(str(path))}"


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a results file."""
    document = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "primbench results line",
    } | document
