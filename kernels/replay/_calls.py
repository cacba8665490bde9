"""The calls of a step in one word, so that a case says all of itself wherever it runs."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import InvalidField

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 2**26
"""Of the calls of a step, written out."""


class Part(NamedTuple):
    """A call that a step makes, once or many times."""

    primitive: str
    fields: dict[str, Any]
    """Of its problem."""


class Calls(NamedTuple):
    """What a step calls."""

    parts: list[Part]
    order: list[int]
    """Which part is called, by its number, one after the other."""


def encoded(parts: Sequence[Part], order: Sequence[int]) -> str:
    """Inverse of ``decoded()``: JSON, deflated, in base64."""
    text = json.dumps({"parts": [[*each] for each in parts], "order": [*order]}, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def decoded(word: str) -> Calls:
    """Raises InvalidField for what ``encoded()`` does not write, or more than MOST_BYTES."""
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(base64.b64decode(word, validate=True), MOST_BYTES)
        found: Any = json.loads(text) if reader.eof else None
        parts = [Part(str(primitive), dict(fields)) for primitive, fields in found["parts"]]
        order = [range(len(parts))[number] for number in found["order"]]
    except (binascii.Error, zlib.error, ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise InvalidField(f"replay calls={word:.40}: the calls of a step, as `primbench bound` writes them") from None
    if not order:
        raise InvalidField("replay calls: a step of no calls")
    return Calls(parts, order)
