"""Words of files, systems and other programs, made harmless for who shows them: terminals, Markdown, spreadsheets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMES = 4


def named(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """The first ones, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def printable(text: str) -> str:
    """On one line, and without what steers a terminal or hides or turns around other words."""
    return text if text.isprintable() else "".join(map(_shown, text))


def lines(text: str) -> str:
    """printable(), line by line."""
    return "\n".join(map(printable, text.split("\n")))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markdown(text: str) -> str:
    """On one line, where nothing is markup, HTML or the end of a cell."""
    return re.sub(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", printable(text))


def paragraph(text: str) -> str:
    """markdown(), for text that starts a line: #, -, + and numbered items are markup there."""
    return re.sub(r"^\s*([#+=-]|[0-9]+[.)])", lambda start: f"{start[0][:-1]}\\{start[0][-1]}", markdown(text))


def json_of(value: object) -> str:
    """A JSON document in which all characters that could steer a terminal are escaped, and ids of facts are texts."""
    import msgspec

    document = msgspec.json.format(msgspec.json.encode(value, enc_hook=_of_no_type), indent=1).decode()
    return "\n".join(map(_escaped, document.split("\n"))) + "\n"


def _of_no_type(value: object) -> str:
    """An id as a text. Raises TypeError for what else JSON has no form of."""
    if isinstance(value, FactId):
        return str(value)
    raise TypeError(f"JSON has no form of {type(value)}")


def json_line(value: object) -> str:
    """The same on one line."""
    import msgspec

    return _escaped(msgspec.json.encode(value).decode()) + "\n"


def _escaped(document: str) -> str:
    """The line with its unprintable characters, which are all within strings, as \\u escapes."""
    return document if document.isprintable() else "".join(map(_in_json, document))


def _in_json(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
