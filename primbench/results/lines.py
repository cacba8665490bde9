"""Lines of results files as they are read: whole, without what is not asked for, or with it left in the file."""

from __future__ import annotations

import os
import shlex
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from primbench.errors import FileError, PrimbenchError
from primbench.measurement import Measurement
from primbench.results.record import Header, Line, Record, Worker
from primbench.system.jsonlines import MARK, UNREADABLE, is_compressed, whole_lines

if TYPE_CHECKING:
    from collections.abc import Callable

NO_LINE = (*UNREADABLE, PrimbenchError)
"""What decoding raises for what is no line of a results file."""
LARGE_BYTES = 64 * 2**20
"""The measurements of a file of more may be left in it."""
HELD_BYTES = 4 * 2**20
"""How much text of these is held as measurements, which take little more than that."""
_MAX_QUOTED = 200
_PIECE_BYTES = 2**20

decode_line: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
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
_Measured = msgspec.defstruct("_Measured", [("measurement", Measurement | None, None)])
_decode_measured: Callable[[bytes], Any] = msgspec.json.Decoder(_Measured).decode
_in_field: Callable[[Record], Any] = Record.__dict__["measurement"].__get__


def measured_where(is_whole: Callable[[Record], bool]) -> Callable[[bytes], Line]:
    """Decodes lines; records that are not whole have no measurement. is_whole: asked of each before that is read."""

    def decode(text: bytes) -> Line:
        found = _decode_unmeasured(text)
        if isinstance(found, Header | Worker):
            return found
        record = Record(**asdict(found))
        return decode_line(text) if is_whole(record) else record

    return decode


def times_alone_but_where(is_whole: Callable[[Record], bool]) -> Callable[[bytes], Line]:
    """Decodes lines; measurements of records that are not whole have their times and numbers of a call alone, without
    what was read beside them: half of the memory.
    """

    def decode(text: bytes) -> Line:
        line = decode_line(text)
        if not isinstance(line, Record) or is_whole(line) or line.measurement is None:
            return line
        return replace(line, measurement=line.measurement.times_alone())

    return decode


def left_in_file(path: str | os.PathLike[str]) -> Callable[[bytes], Line]:
    """Decodes the lines of a file, after its header one by one; measurements are read when a record is asked for its
    own, and again where it is asked again much later. So the file must stay as it is, and such records cannot be
    written. Of a small, a compressed file or a pipe they are read at once.

    A record raises FileError where it is asked for a measurement that is not as it should be.
    """
    try:
        is_large = os.path.isfile(path) and os.path.getsize(path) > LARGE_BYTES and not is_compressed(Path(path))
        return _Measurements(path).left if is_large else decode_line
    except OSError:  # which reading it tells of
        return decode_line


class _Measurements:
    """Those of a file, read where records that left() made are asked for them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._file = path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        self._end = len(MARK) if os.pread(self._file, len(MARK), 0) == MARK else 0
        self._end += len(next(whole_lines(Path(path)), b""))
        self._held: dict[int, Measurement | None] = {}
        self._held_bytes = 0

    def left(self, text: bytes) -> Line:
        """A line, the next of the file after the header; of a record all but its measurement."""
        begin, self._end = self._end, self._end + len(text)
        found = _decode_unmeasured(text)
        if isinstance(found, Header | Worker):
            return found
        place: Any = _Place(self, begin, self._end)
        return Reread(**asdict(found), measurement=place)

    def at(self, begin: int, end: int) -> Measurement | None:
        """Of the record in these bytes of the file. Raises FileError."""
        try:
            return self._held[begin]
        except KeyError:
            self._held_bytes += end - begin
        if self._held_bytes > HELD_BYTES:
            self._held.clear()
            self._held_bytes = end - begin
        found = self._held[begin] = self._decoded(begin, end)
        return found

    def _decoded(self, begin: int, end: int) -> Measurement | None:
        text = os.pread(self._file, end - begin, begin)
        try:
            found: Measurement | None = _decode_measured(text).measurement
        except NO_LINE as error:
            raise no_line(self._path, 1 + self._lines_before(begin), error) from None
        return found

    def _lines_before(self, begin: int) -> int:
        pieces = range(0, begin, _PIECE_BYTES)
        return sum(os.pread(self._file, min(_PIECE_BYTES, begin - at), at).count(b"\n") for at in pieces)


class _Place:
    """Where the measurement of a record is."""

    __slots__ = ("begin", "end", "measurements")

    def __init__(self, measurements: _Measurements, begin: int, end: int) -> None:
        self.measurements, self.begin, self.end = measurements, begin, end


class Reread(Record, frozen=True):
    """A record that has the place of its measurement in the field of that."""

    @property  # type: ignore[misc] # over a field, which has the place
    def measurement(self) -> Measurement | None:
        place: _Place = _in_field(self)
        return place.measurements.at(place.begin, place.end)


def no_line(path: str | os.PathLike[str], number: int, error: Exception) -> FileError:
    """Of a line that is not as it should be, and what to do. error: of NO_LINE."""
    reason = next(iter(str(error).splitlines()), type(error).__name__)[:_MAX_QUOTED]
    return FileError(f"{path}:{number}: not a line of a results file: {reason}{_without(path, number)}")


def _without(path: str | os.PathLike[str], number: int) -> str:
    """How to have the other lines, of a file whose header is whole and which sed can read."""
    if number == 1 or not os.path.isfile(path) or is_compressed(Path(path)):
        return ""
    return f"; to do without it, and keep the file as it is as .bak: sed -i.bak {number}d {shlex.quote(str(path))}"
