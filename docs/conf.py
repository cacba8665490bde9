"""How Sphinx makes a site and a man page of these pages: `sphinx-build docs site`, `sphinx-build -b man docs man`."""

from __future__ import annotations

from pathlib import Path

from primbench import __version__
from primbench.docs import reference

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
