"""A file of safetensors: eight bytes of the header's length, the header in JSON, and the tensors behind it.

The format is that of https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, NamedTuple

from primbench.errors import PrimbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import FileIO

PERIOD_BYTES = 4093 * 1021  # after which contents repeat: of two primes, so that hardly any two tensors are alike
_LENGTH = struct.Struct("<Q")
_MOST_HEADER_BYTES = 100_000_000  # as the package takes
_ALIGNED_BYTES = 8  # the package pads headers with spaces, so that the tensors begin at a multiple


class Tensor(NamedTuple):
    """Where a tensor lies among the bytes behind the header."""

    name: str
    """By which the header calls it."""
    begin: int
    """Bytes before it."""
    end: int
    """Bytes up to its last one, and with it."""


def layout(tensors: int, size_bytes: int) -> list[Tensor]:
    """Equal tensors, one behind the other."""
    return [Tensor(f"{number:06}.weight", number * size_bytes, (number + 1) * size_bytes) for number in range(tensors)]


def write(file: FileIO, tensors: Sequence[Tensor], period: memoryview) -> None:
    """A file of int8 vectors, whose bytes repeat those of ``period``. Raises OSError."""
    described = {
        each.name: {"dtype": "I8", "shape": [each.end - each.begin], "data_offsets": [each.begin, each.end]}
        for each in tensors
    }
    header = json.dumps(described, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNED_BYTES)
    _write_all(file, memoryview(_LENGTH.pack(len(header)) + header))
    left = tensors[-1].end
    while left:
        part = period[:left]
        _write_all(file, part)
        left -= len(part)


def _write_all(file: FileIO, part: memoryview) -> None:
    """A file system takes less at a time where a limit is near."""
    while part:
        part = part[file.write(part) or 0 :]


def read_header(file: FileIO) -> tuple[int, list[Tensor]]:
    """Where the tensors' bytes begin, and where each tensor lies behind that. Raises PrimbenchError for another file.

    It trusts what it has written itself: offsets are not held against the file's size, as reading shows that.
    """
    try:
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        described = json.loads(file.read(min(length, _MOST_HEADER_BYTES)))
        tensors = [Tensor(name, *each["data_offsets"]) for name, each in described.items()]
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise PrimbenchError(f"a file that is to be of safetensors has another header: {error}") from None
    return _LENGTH.size + length, tensors
