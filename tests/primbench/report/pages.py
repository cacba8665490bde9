"""What a test asks of a page: it is parsed as a browser and as an XML reader would do, and nothing in it is trusted."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, fromstring

VOID = {"meta", "br", "link", "img", "input", "hr"}
ADDRESSES = ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "formaction")
NUMBER = re.compile(r"[0-9][0-9.,]*(?:e[+-]?[0-9]+)?")
MOST_POINTS = 2000


@dataclass
class Tag:
    name: str
    attributes: dict[str, str]
    children: list[Tag | str] = field(default_factory=list)

    def walk(self) -> Iterator[Tag]:
        """Every one in it, itself left out, as they stand."""
        waiting = [each for each in reversed(self.children) if isinstance(each, Tag)]
        while waiting:
            found = waiting.pop()
            yield found
            waiting += [each for each in reversed(found.children) if isinstance(each, Tag)]

    def all(self, name: str) -> list[Tag]:
        return [found for found in self.walk() if found.name == name]

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.children)


class _Reader(HTMLParser):
    """Refuses what is not closed in its order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Tag("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Tag(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(found)
        if tag not in VOID:
            self.open.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop().name, f"</{tag}> in line {self.getpos()[0]} ends something else"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(html: str) -> Tag:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    (root,) = reader.open
    return root


def pictures(html: str) -> list[Element]:
    """Each picture, as an XML reader has it."""
    return [fromstring(found) for found in re.findall(r'<svg [^>]*role="img".*?</svg>(?=</div>)', html, re.DOTALL)]


def check(html: str) -> Tag:
    """Hold a page to its policy and to what those who do not see its pictures need of it."""
    page = parsed(html)
    every = [*page.walk()]
    named: dict[str, list[Tag]] = {}
    for tag in every:
        named.setdefault(tag.name, []).append(tag)
        assert not [name for name in tag.attributes if name.startswith("on")], tag
        for name in ADDRESSES:
            assert tag.attributes.get(name, "#").startswith("#"), tag
        assert not re.search(r"url\(|@import|javascript:", " ".join(tag.attributes.values())), tag
    assert not {"img", "iframe", "object", "embed", "link", "base", "form", "use", "image"} & named.keys()
    (style,), (script,), (title,) = named["style"], named["script"], named["head"][0].all("title")
    assert not re.search(r"url\(|@import", style.text)
    assert title.text
    (policy,) = [tag.attributes["content"] for tag in named["meta"] if "http-equiv" in tag.attributes]
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert len(script.text) <= 2000
    names = [tag.attributes["id"] for tag in every if "id" in tag.attributes]
    assert len(set(names)) == len(names)
    assert {link.attributes["href"][1:] for link in named.get("a", [])} <= set(names)
    figures = named.get("figure", [])
    drawn = pictures(html)
    assert len(figures) == len(drawn)
    for figure, picture in zip(figures, drawn, strict=True):
        _check_figure(figure, picture)
    return page


def _check_figure(figure: Tag, picture: Element) -> None:
    name, words = picture.findtext("title"), picture.findtext("desc")
    assert picture.get("role") == "img"
    assert name
    assert words
    assert name == figure.all("h3")[0].text
    marks = [each for each in picture.iter() if each.tag in ("circle", "path", "rect", "line")]
    assert len(marks) + sum((each.get("d") or "").count("L") for each in marks) <= 2 * MOST_POINTS, name
    (table,) = figure.all("table")
    cells = "\n".join(cell.text for cell in [*table.all("td"), *table.all("th"), *table.all("caption")])
    numbers = set(NUMBER.findall(cells))
    drawn = [each.text or "" for each in picture.iter() if each.tag == "title" and each.text != name]
    drawn += [each.text or "" for each in picture.iter("text") if each.get("class") != "tick"]
    assert drawn, f"{name}: shows no number"
    missing = {number for said in drawn for number in NUMBER.findall(said)} - numbers
    assert not missing, f"{name}: {missing} in the picture alone"
