"""A finding in the formats that it can be written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from primbench.report import text
from primbench.report.document import Document
from primbench.report.formats import known

Export = Callable[[Any], str]


def exports_of(document: Callable[[Any], Document]) -> tuple[Export, Export, Export]:
    """``to_csv, to_markdown, to_json = exports_of(document)``: each takes what ``document()`` takes."""

    def written_as(name: str) -> Export:
        return lambda found: str(known()[name].write(document(found)))

    return written_as("csv"), written_as("markdown"), written_as("json")


def text_of(document: Callable[..., Document]) -> Callable[..., str]:
    """``text = text_of(document)``: takes what ``document()`` takes."""
    return lambda *found, **options: text.write(document(*found, **options))
