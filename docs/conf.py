"""How Sphinx makes a site and a man page of these pages: `sphinx-build docs site`, `sphinx-build -b man docs man`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes  # type: ignore[import-untyped]

from primbench import __version__
from primbench.docs import reference

if TYPE_CHECKING:
    from sphinx.application import Sphinx

reference.write(Path(__file__).parent / "reference")

project = "primbench"
release = version = __version__
extensions = ["myst_parser"]
html_theme = "alabaster"
html_theme_options = {"description": "Timed deep-learning primitives, place against place"}
man_pages: list[tuple[str, str, str, list[str], int]] = [
    ("index", "primbench", "time deep-learning primitives, and what a place costs them", [], 1),
]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", as_man_page)


def as_man_page(app: Sphinx, pages: nodes.document, name: str) -> None:
    """All pages as one for `man`: with a synopsis, and words where links would lead to other pages of the site."""
    if app.builder.name != "man":
        return
    for link in [*pages.findall(nodes.reference)]:
        if link.get("internal"):
            link.replace_self(link.children)
    (whole,) = pages.children
    title, *rest = whole.children
    first = next(number for number, each in enumerate(rest) if isinstance(each, nodes.compound))  # the other pages
    usage = nodes.literal_block("", "\n".join(reference.synopsis()))
    whole.children = [title, _section("Synopsis", [usage]), _section("Description", rest[:first]), *rest[first:]]


def _section(title: str, content: list[nodes.Node]) -> nodes.section:
    return nodes.section("", nodes.title("", title), *content, ids=[title.lower()])
