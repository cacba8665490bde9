"""The build id of a library: a note that the linker writes, equal in two files where they are the same build.

Reads the header, the program headers and the notes, however large the file is. Layouts and names: elf(5).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_IDENT_BYTES = 16
_MAGIC = b"\x7fELF"
_MAX_NOTES_BYTES = 2**16  # real segments of notes have some hundred; bounds what a damaged header can ask for


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


def _gnu_notes(file: BinaryIO) -> Iterator[dict[int, bytes]]:
    """Type -> content of the notes named "GNU", a segment of notes at a time."""
    ident = file.read(_IDENT_BYTES)
    if ident[:4] != _MAGIC or len(ident) < _IDENT_BYTES or not {ident[4], ident[5]} <= {1, 2}:
        raise ValueError(f"{file.name} is no ELF file")
    order, wide = "<>"[ident[5] - 1], ident[4] == 2
    for offset, size, alignment in _note_segments(file, order, wide=wide):
        file.seek(offset)
        yield _parse_notes(file.read(min(size, _MAX_NOTES_BYTES)), order, 8 if alignment == 8 else 4)


def _note_segments(file: BinaryIO, order: str, *, wide: bool) -> list[tuple[int, int, int]]:
    """Offset, size and alignment of each, by the file's header and program headers."""
    word = "Q" if wide else "I"
    header = struct.Struct(f"{order}HHI{word}{word}{word}IHHH")
    *_, table_at, _, _, _, entry_bytes, entries = header.unpack(file.read(header.size))
    entry = struct.Struct(f"{order}IIQQQQQQ" if wide else f"{order}IIIIIIII")
    found = []
    for number in range(entries):
        file.seek(table_at + number * entry_bytes)
        fields = entry.unpack(file.read(entry.size))
        if fields[0] == _PT_NOTE:
            found.append((fields[2], fields[5], fields[7]) if wide else (fields[1], fields[4], fields[7]))
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
