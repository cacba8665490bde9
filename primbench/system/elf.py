"""The build id of a library, a note that the linker writes, equal in two files where they are the same build; where in
its file functions are; and what it is called, and calls, where the dynamic loader looks for libraries.

Reads the header, the tables and the notes, however large the file is. Layouts and names: elf(5).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_PT_LOAD, _PT_NOTE = 1, 4
_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_DT_NEEDED, _DT_SONAME = 1, 14
_NT_GNU_BUILD_ID = 3
_IDENT_BYTES = 16
_MAGIC = b"\x7fELF"
_MAX_TABLE_BYTES = 2**26
_MAX_NOTES_BYTES = 2**16  # real segments of notes have some hundred; bounds what a damaged header can ask for


class _Segment(NamedTuple):
    """A part of the file that is loaded."""

    kind: int
    offset: int
    """Where it begins in the file."""
    address: int
    """Where it begins in memory, counted from where the library begins."""
    size: int
    """Bytes of it in the file."""
    alignment: int


class Dynamic(NamedTuple):
    """What a library says of itself for the dynamic loader."""

    name: str | None
    """The name by which libraries that need it ask for it, None where it says none."""
    needed: tuple[str, ...]
    """Names of the libraries that it needs."""


def is_elf(path: Path) -> bool:
    """Whether a file begins as ELF files do; False where it cannot be read."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def build_id(path: Path) -> str:
    """The GNU build id in hexadecimal. Raises OSError, and ValueError for a file without one."""
    if not path.is_file():  # opening a pipe would wait for its other end
        raise ValueError(f"{path} is no file")
    with path.open("rb") as file:
        try:
            found = next((notes[_NT_GNU_BUILD_ID] for notes in _gnu_notes(file) if notes.get(_NT_GNU_BUILD_ID)), None)
        except struct.error:
            raise ValueError(f"{path} ends before its notes do") from None
    if found is None:
        raise ValueError(f"{path} has no build id")
    return found.hex()


def exported(path: Path, names: Collection[str]) -> dict[str, int]:
    """Name -> where it begins in the file, of those of the functions that a library of 64 bits exports.

    Raises OSError, and ValueError for what is no such library.
    """
    with path.open("rb") as file:
        order, wide = _layout(file)
        if not wide:
            raise ValueError(f"{path} is of 32 bits")
        try:
            segments = [each for each in _segments(file, order, wide=wide) if each.kind == _PT_LOAD]
            symbols = dict(_symbols(file, order))
        except struct.error:
            raise ValueError(f"{path} ends before its tables do") from None
    found = {name: symbols[name.encode()] for name in names if symbols.get(name.encode())}
    return {
        name: address - segment.address + segment.offset
        for name, address in found.items()
        for segment in segments
        if segment.address <= address < segment.address + segment.size
    }


def linked(path: Path) -> Dynamic:
    """What a library of 64 bits tells the dynamic loader. Raises OSError, and ValueError for what is none."""
    with path.open("rb") as file:
        order, wide = _layout(file)
        if not wide:
            raise ValueError(f"{path} is of 32 bits")
        try:
            entries = [*_dynamic(file, order)]
        except struct.error:
            raise ValueError(f"{path} ends before its tables do") from None
    names = [name for tag, name in entries if tag == _DT_SONAME]
    return Dynamic(names[0] if names else None, tuple(name for tag, name in entries if tag == _DT_NEEDED))


def section(file: BinaryIO, name: str) -> tuple[int, int] | None:
    """Offset and size of the section of that name in a library of 64 bits; None where it has none.

    Raises OSError, and ValueError for what is no such library.
    """
    order, wide = _layout(file)
    if not wide:
        raise ValueError(f"{file.name} is of 32 bits")
    try:
        sections = _sections(file, order)
        file.seek(0x3E)
        (names,) = struct.unpack(f"{order}H", file.read(2))
        text = _read(file, *sections[names][4:6]) if names < len(sections) else b""
    except struct.error:
        raise ValueError(f"{file.name} ends before its tables do") from None
    wanted = name.encode() + b"\0"
    return next(((each[4], each[5]) for each in sections if text[each[0] : each[0] + len(wanted)] == wanted), None)


def _sections(file: BinaryIO, order: str) -> list[tuple[int, ...]]:
    """Of each its name's place, type, flags, address, offset, size, link, ..."""
    file.seek(0x28)
    (table_at,) = struct.unpack(f"{order}Q", file.read(8))
    file.seek(0x3C)
    (count,) = struct.unpack(f"{order}H", file.read(2))
    layout = struct.Struct(f"{order}IIQQQQIIQQ")
    file.seek(table_at)
    return [layout.unpack(file.read(layout.size)) for _ in range(count)]


def _symbols(file: BinaryIO, order: str) -> Iterator[tuple[bytes, int]]:
    """Names and addresses in the table for the dynamic loader; 0 of what the library takes from others."""
    sections = _sections(file, order)
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == _SHT_DYNSYM and link < len(sections):
            text = _read(file, *sections[link][4:6])
            for name, _, _, _, address, _ in struct.iter_unpack(f"{order}IBBHQQ", _read(file, offset, size)):
                yield text[name : text.find(b"\0", name)], address


def _dynamic(file: BinaryIO, order: str) -> Iterator[tuple[int, str]]:
    """Tags, and the names that they are of."""
    sections = _sections(file, order)
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == _SHT_DYNAMIC and link < len(sections):
            text = _read(file, *sections[link][4:6])
            for tag, name in struct.iter_unpack(f"{order}qQ", _read(file, offset, size)):
                if tag in (_DT_NEEDED, _DT_SONAME):
                    yield tag, text[name : text.find(b"\0", name)].decode(errors="replace")


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(min(size, _MAX_TABLE_BYTES))


def _layout(file: BinaryIO) -> tuple[str, bool]:
    """Order of bytes as struct has it, and whether it is of 64 bits. Raises ValueError for what is no ELF file."""
    ident = file.read(_IDENT_BYTES)
    if ident[:4] != _MAGIC or len(ident) < _IDENT_BYTES or not {ident[4], ident[5]} <= {1, 2}:
        raise ValueError(f"{file.name} is no ELF file")
    return "<>"[ident[5] - 1], ident[4] == 2


def _gnu_notes(file: BinaryIO) -> Iterator[dict[int, bytes]]:
    """Type -> content of the notes named "GNU", a segment of notes at a time."""
    order, wide = _layout(file)
    for segment in _segments(file, order, wide=wide):
        if segment.kind == _PT_NOTE:
            file.seek(segment.offset)
            yield _parse_notes(
                file.read(min(segment.size, _MAX_NOTES_BYTES)), order, 8 if segment.alignment == 8 else 4
            )


def _segments(file: BinaryIO, order: str, *, wide: bool) -> list[_Segment]:
    """By the file's header and program headers."""
    word = "Q" if wide else "I"
    header = struct.Struct(f"{order}HHI{word}{word}{word}IHHH")
    file.seek(_IDENT_BYTES)
    *_, table_at, _, _, _, entry_bytes, entries = header.unpack(file.read(header.size))
    entry = struct.Struct(f"{order}IIQQQQQQ" if wide else f"{order}IIIIIIII")
    found = []
    for number in range(entries):
        file.seek(table_at + number * entry_bytes)
        fields = entry.unpack(file.read(entry.size))
        kind, offset, address, size = (
            fields[0],
            *((fields[2], fields[3]) if wide else fields[1:3]),
            fields[5 if wide else 4],
        )
        found.append(_Segment(kind, offset, address, size, fields[7]))
    return found


def _parse_notes(notes: bytes, order: str, alignment: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(notes):
        name_bytes, content_bytes, kind = struct.unpack_from(f"{order}III", notes, at)
        name_at = at + 12
        content_at = name_at + _aligned(name_bytes, 4)
        at = _aligned(content_at + content_bytes, alignment)
        if notes[name_at : name_at + name_bytes] == b"GNU\0" and at <= _aligned(len(notes), alignment):
            found.setdefault(kind, notes[content_at : content_at + content_bytes])
    return found


def _aligned(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment
