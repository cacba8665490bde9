"""Parquet, for data frames: the rows of the CSV, each column in its own type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.report.document import Document

RANK = 15
WRITES = "a Parquet file of the same rows (pandas and pyarrow)"
NEEDS = ("pandas", "pyarrow")


def write(document: Document) -> bytes:
    """The document's rows; a cell is null where its value is unknown."""
    import io

    from primbench.results.summary import frame_of

    out = io.BytesIO()
    frame_of(document.rows()).to_parquet(out, engine="pyarrow", index=False)
    return out.getvalue()
