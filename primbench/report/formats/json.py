"""JSON: everything, raw samples included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.report.plain import json_of

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 30
WRITES = "one JSON document"


def write(document: Document) -> str:
    return json_of(document.value)
