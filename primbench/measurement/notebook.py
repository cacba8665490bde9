"""How what was measured looks in a notebook: a small table, whatever words stand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> str:
    """HTML of it, without style or script of its own. more: a line below; none where it is ""."""
    head = "".join(f"<th>{_text(each)}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = f"<p>{_text(more)}</p>" if more else ""
    return f"<table><caption>{_text(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _text(words: str) -> str:
    from html import escape

    return escape("".join(each if each.isprintable() else "?" for each in words))
