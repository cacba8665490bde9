"""What pictures are drawn with: boxes, lines and words of plain SVG, in one look. Lengths are in pixels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE = 16  # pixels from one line of text to the next
INK, QUIET, PAPER = "#1d2733", "#5b6b7b", "#ffffff"


def canvas(width: int, height: int, title: str, words: str = "", top: int = 0) -> Element:
    """words: what is seen, of one in a page. top: where it begins, below which the height is."""
    of = {"role": "img", "class": "fixed"} if words else {"xmlns": "http://www.w3.org/2000/svg"}
    size = {"viewBox": f"0 {top} {width} {height - top}", "width": str(width), "height": str(height - top)}
    svg = Element("svg", {**of, **size, "font-family": "DejaVu Sans, Helvetica, Arial, sans-serif"})
    SubElement(svg, "title").text = title
    if words:
        SubElement(svg, "desc").text = words
    SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": PAPER})
    return svg


def add_box(svg: Element, x: int, y: int, width: int, height: int, *, fill: str, dashed: bool = False) -> Element:
    attributes = {"x": x, "y": y, "width": width, "height": height, "rx": 6, "fill": fill, "stroke": QUIET}
    dashes = {"stroke-dasharray": "5 4"} if dashed else {}
    return SubElement(svg, "rect", {name: str(value) for name, value in attributes.items()} | dashes)


def add_line(svg: Element, path: str, colour: str, *, width: int = 1, dashed: bool = False) -> None:
    dashes = {"stroke-dasharray": "5 4"} if dashed else {}
    attributes = {"d": path, "fill": "none", "stroke": colour, "stroke-width": str(width)}
    SubElement(svg, "path", attributes | dashes)


def add_lines(svg: Element, x: int, above: int, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, 1):
        add_text(svg, x, above + number * LINE, line)


def add_text(
    svg: Element,
    x: int,
    y: int,
    words: str,
    *,
    size: int = 11,
    weight: str = "normal",
    colour: str = INK,
    anchor: str = "start",
    halo: bool = False,
) -> None:
    behind = {"stroke": PAPER, "stroke-width": "4", "paint-order": "stroke"} if halo else {}
    attributes = {"font-size": str(size), "font-weight": weight, "fill": colour, "text-anchor": anchor}
    SubElement(svg, "text", {"x": str(x), "y": str(y)} | attributes | behind).text = _printable(words)


def _printable(words: str) -> str:
    """XML 1.0 has no place for most control characters, not even escaped."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", words)
