"""Results files: read, checked line by line, and described by a JSON Schema."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import FileError
from primbench.measurement import notebook
from primbench.results.alike import Alike
from primbench.results.lines import NO_LINE, Reread, decode_line, measured_where, no_line
from primbench.results.record import HEADINGS, SCHEMA_VERSION, Header, Line, Record, Worker, as_it_was
from primbench.system.jsonlines import whole_lines

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import pandas

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
    """What all schema versions share of a header, by which a newer file, or a first one, is told from a damaged one."""

    schema_version: int
    environment: Any = None


_decode_version = msgspec.json.Decoder(_Version).decode


def read(path: str | os.PathLike[str], is_whole: Callable[[Record], bool] | None = None) -> Results:
    """Read a results file. is_whole: asked of each record in its order before its measurement is read, which it goes
    without where that is not wanted; None reads all.

    Raises FileError naming the line that is not as it should be, and what to do.
    """
    return read_by(path, decode_line if is_whole is None else measured_where(is_whole))


def read_by(path: str | os.PathLike[str], decode: Callable[[bytes], Line]) -> Results:
    """As read(). decode: makes a line of each text after the first."""
    results, damage = read_in_part(path, decode)
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
    path: str | os.PathLike[str], decode: Callable[[bytes], Line] = decode_line
) -> tuple[Results, FileError | None]:
    """What a results file holds before the first line that is not as it should be, and what read() says of that.

    decode: makes a line of each text after the first. Raises FileError where the first is no header.
    """
    lines = whole_lines(Path(path))
    results, alike = Results(header=_header(path, next(lines, b"")), workers=[], records=[]), Alike()
    try:
        for number, text in enumerate(lines, 2):
            line = _line(path, number, text, decode)
            if isinstance(line, Header):
                raise FileError(f"{path}:{number}: a second header: two results files in one; keep them apart")
            if isinstance(line, Record):
                alike.add_case(line.case)
                if not isinstance(line, Reread) and line.measurement is not None:
                    alike.add_measurement(line.measurement)
            results.add(line)
    except FileError as damage:
        return results, damage
    return results, None


def read_header(path: str | os.PathLike[str]) -> Header:
    """Its first line alone. Raises FileError where that is none of a results file."""
    return _header(path, next(whole_lines(Path(path)), b""))


def _header(path: str | os.PathLike[str], text: bytes) -> Header:
    if not text:
        raise FileError(f"{path}: not a primbench results file: it is empty")
    try:
        told = _decode_version(text)
    except NO_LINE:
        raise FileError(f"{path}: not a primbench results file, as -o writes it: its first line is no header") from None
    if told.schema_version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: written with schema {told.schema_version}, this primbench reads up to {SCHEMA_VERSION}: "
            "upgrade primbench"
        )
    if isinstance(told.environment, dict) and isinstance(told.environment.get("machine"), str):
        raise FileError(
            f"{path}: recorded on 20 November 2026, the first day, with a place's facts side by side: no longer read; "
            "measure again"
        )
    header = _line(path, 1, text)
    assert isinstance(header, Header)
    return header


def _line(
    path: str | os.PathLike[str], number: int, text: bytes, decode: Callable[[bytes], Line] = decode_line
) -> Line:
    try:
        line = decode(text)
        return as_it_was(line) if isinstance(line, Record) else line
    except NO_LINE as error:
        raise no_line(path, number, error) from None


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a results file."""
    document = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "primbench results line",
    } | document
