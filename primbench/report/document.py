"""What a finding comes to, before it is written in some format: rows, tables with words around them, and the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from primbench.report.table import Table


@dataclass(frozen=True)
class Document:
    """rows: flat, times in seconds, None where a value is unknown. parts: tables, and words before and after them.

    value: the whole, which msgspec can encode. Rows and parts are made when a format asks for them.
    """

    rows: Callable[[], Sequence[Mapping[str, object]]]
    parts: Callable[[], Iterable[Table | str]]
    value: object
