"""What a finding comes to, before it is written in some format: rows, tables with words around them, and the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from primbench.report.table import Table

State = Literal["passed", "failed", "open"]


@dataclass(frozen=True)
class Check:
    """What passes or not where software is tested. group: what it is one of, such as an arm. words: what was found.

    open: it was skipped, or could not be told.
    """

    group: str
    name: str
    state: State
    words: str


@dataclass(frozen=True)
class Document:
    """rows: flat, times in seconds, None where a value is unknown. parts: tables, and words before and after them.

    checks: one a case. value: the whole, which msgspec can encode. All others are made when a format asks for them.
    """

    rows: Callable[[], Sequence[Mapping[str, object]]]
    parts: Callable[[], Iterable[Table | str]]
    checks: Callable[[], Sequence[Check]]
    value: object
