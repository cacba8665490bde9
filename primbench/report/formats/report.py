"""A page with pictures, for people: one HTML file that asks for no other, and runs its own script alone.

The style is report.css. The script, report.js, sorts a table by the heading that is clicked on, unknown values last.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

from primbench.report.columns import number_of
from primbench.report.document import Figure, Note, Section
from primbench.report.plain import lines, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.report.document import Column, Document, Table

RANK = 5
WRITES = "one HTML page with pictures"

_FILE = Path(__file__)
STYLE, SCRIPT = (f"\n{_FILE.with_suffix(kind).read_text(encoding='utf-8')}" for kind in (".css", ".js"))
MOST_LETTERS = 28  # of a cell on one line
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_SCRIPT_HASH}'"


def write(document: Document) -> str:
    """The whole file. Words of files and programs are text in it, never markup."""
    page = document.page() if document.page else document
    html = Element("html", {"lang": "en"})
    _head(html, page)
    body = SubElement(html, "body")
    header = SubElement(body, "header")
    add(header, "p", page.title, look="of")
    answer = page.answer or Note(page.title)
    add(header, "h1", answer.words, look=answer.tone or "")
    main = Element("main")
    named = [(section, f"part-{number}") for number, section in enumerate(_titled(page), 1)]
    _contents(body, named)
    body.append(main)
    for section, name in named:
        _section(main, section, name)
    add(body, "script").text = SCRIPT  # as it is: its hash is in the policy
    return f"<!doctype html>\n{tostring(html, encoding='unicode', method='html')}\n"


def add(parent: Element, tag: str, words: str = "", *, look: str = "", **attributes: str) -> Element:
    """An element with words in it. look: its class."""
    element = SubElement(parent, tag, ({"class": look} if look else {}) | attributes)
    if words:
        element.text = printable(words)
    return element


def _titled(page: Document) -> list[Section]:
    """Its sections; those without a title are one."""
    every = [*page.sections()]
    titled = [each for each in every if each.title]
    parts = [*page.beside, *(part for each in every if not each.title for part in each.parts)]
    return [*([Section("Found", parts)] if parts else []), *titled]


def _head(html: Element, page: Document) -> None:
    head = SubElement(html, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width,initial-scale=1"})
    SubElement(head, "meta", {"name": "generator", "content": "primbench"})
    add(head, "title", f"primbench: {page.title}")
    SubElement(head, "style").text = STYLE


def _contents(body: Element, named: Sequence[tuple[Section, str]]) -> None:
    """Where to find what, on a page of more than a few sections; those that are folded are short as they stand."""
    if len(named) > 3:
        listed = SubElement(SubElement(body, "nav", {"aria-label": "Contents"}), "ul")
        for section, name in named:
            if section.is_folded:
                continue
            add(SubElement(listed, "li"), "a", section.title, href=f"#{name}")


def _section(main: Element, section: Section, name: str) -> None:
    if section.is_folded:
        parent = SubElement(main, "details", {"class": "section", "id": name})
        add(SubElement(parent, "summary"), "h2", section.title)
    else:
        parent = SubElement(main, "section", {"id": name})
        add(parent, "h2", section.title)
    for part in section.parts:
        _part(parent, part)


def _part(parent: Element, part: Note | Figure | Table) -> None:
    if isinstance(part, Note):
        _note(parent, part)
    elif isinstance(part, Figure):
        _figure(parent, part)
    else:
        _table(parent, part)


def _note(parent: Element, note: Note) -> None:
    if note.kind == "code":
        SubElement(parent, "pre").text = lines(note.words)
    else:
        add(parent, "p", note.text, look="warning" if note.kind == "warning" else "note")


def _figure(parent: Element, figure: Figure) -> None:
    found = SubElement(parent, "figure")
    caption = SubElement(found, "figcaption")
    add(caption, "h3", figure.title)
    add(caption, "p", figure.words)
    _scrolling(found, figure.title).append(figure.picture)
    if figure.is_folded:
        found = SubElement(found, "details")
        add(found, "summary", "Numbers")
    _table(found, figure.numbers)


def _scrolling(parent: Element, name: str) -> Element:
    """A box that is scrolled where it does not fit, by keys, too."""
    return SubElement(
        parent, "div", {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": printable(name)}
    )


def _table(parent: Element, table: Table) -> None:
    sides = [_look(column) for column in table.columns]
    body = _grid(parent, table, sides)
    for cells in zip(*(_cells(column) for column in table.columns), strict=True):
        row = SubElement(body, "tr")
        for (words, value), side in zip(cells, sides, strict=True):
            add(row, "td", words, look=side, **({"data-v": value} if value is not None and value != words else {}))
    for note in table.notes:
        _note(parent, note)


def _grid(parent: Element, table: Table, sides: Sequence[str]) -> Element:
    """The body of a new table."""
    caption = table.caption(", ")
    found = add(_scrolling(parent, caption or "Numbers"), "table", look="list" if table.is_list else "")
    if caption:
        add(found, "caption", caption)
    if any(table.headings) or not table.is_list:
        row = SubElement(SubElement(found, "thead"), "tr")
        for heading, side in zip(table.headings, sides, strict=True):
            add(row, "th", heading.strip() or "what", look=side, scope="col")
    return SubElement(found, "tbody")


def _cells(column: Column) -> list[tuple[str, str | None]]:
    """What stands in each cell, and the value by which it is sorted where that is a number."""
    return [(words, _value(value)) for words, value in zip(column.cells(), column.values, strict=True)]


def _value(value: object) -> str | None:
    if value is None:
        return ""
    number = number_of(value)
    return None if number is None else f"{number:.6g}"


def _look(column: Column) -> str:
    """Numbers stand at the right, long words are broken into lines."""
    known = [value for value in column.values if value is not None]
    if known and all(number_of(value) is not None for value in known):
        return "n"
    return "long" if max(map(len, column.cells()), default=0) > MOST_LETTERS else ""
