"""What of a results file is shown: some of its records, in another order, in some of the columns."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from primbench.errors import InvalidRequest, near
from primbench.report.columns import PLACES, Noise, columns_of, number_of
from primbench.report.layout import ROW
from primbench.report.table import of_primitives
from primbench.units import parse_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.baselines.yardstick import Yardstick
    from primbench.report.document import Table
    from primbench.results.record import Record

MOST_TOLD = 12  # values of a field
UNITS: tuple[Literal["", "B"], ...] = ("", "B")


def kept(records: Sequence[Record], words: Iterable[str]) -> list[Record]:
    """Those that a word each speaks of: a primitive, or FIELD=VALUE of a case; of several of one field any will do.

    Raises InvalidRequest where none is left.
    """
    asked: dict[str, set[str]] = {}
    for word in words:
        field, equals, value = word.partition("=")
        asked.setdefault(field if equals else "primitive", set()).add(value if equals else word)
    found = [each for each in records if all(_is_one_of(each, field, values) for field, values in asked.items())]
    if not found:
        raise InvalidRequest(f"--only {' '.join(words)}: no record is such: {_there(records, asked)}")
    return found


def _there(records: Sequence[Record], asked: Iterable[str]) -> str:
    """The fields, where one is asked for that no record has; else what those are that are asked for."""
    values: dict[str, dict[str, None]] = {}
    for record in records:
        for field, value in _fields(record).items():
            values.setdefault(field, {})[str(value)] = None
    if any(field not in values for field in asked):
        return f"fields are {', '.join(values)}"
    return "; ".join(f"{field} is {', '.join([*values[field]][:MOST_TOLD])}" for field in asked)


def _fields(record: Record) -> dict[str, object]:
    case = record.case
    places = {name: of(record) for name, of in PLACES.items()}
    return (
        {"primitive": case.primitive, "status": record.status, "arm": case.arm, **places}
        | case.parameters
        | case.labels
    )


def _is_one_of(record: Record, field: str, values: Iterable[str]) -> bool:
    there = _fields(record).get(field)
    return any(there in _meant(there, value) for value in values)


def _meant(there: object, value: str) -> Sequence[object]:
    """What a word can mean for a field that holds such: 64KiB and 4K, too, are numbers."""
    if isinstance(there, bool):
        return [{"yes": True, "true": True, "no": False, "false": False}.get(value.lower())]
    if isinstance(there, float):
        with suppress(ValueError):
            return [float(value)]
        return []
    if not isinstance(there, int):
        return [value]
    for unit in UNITS:
        with suppress(InvalidRequest):
            return parse_counts(value, unit)
    return []


def in_order(records: Sequence[Record], heading: str, yardsticks: Sequence[Yardstick]) -> list[Record]:
    """By the column of that heading, the largest first where a minus stands before it; what is unknown comes last.

    Raises InvalidRequest where no table has it.
    """
    name, falls = heading.removeprefix("-"), heading.startswith("-")
    found: list[Record] = []
    headings: set[str] = set()
    for group in of_primitives(records):
        made = columns_of(group, None, yardsticks, wanted=[name])
        columns = {column.heading: column.values for column in made}
        headings |= columns.keys()
        values = columns.get(name, [None] * len(group))
        pairs = [(_key(value), record) for value, record in zip(values, group, strict=True)]
        known = [(key, record) for key, record in pairs if key is not None]
        found += [record for _, record in sorted(known, key=lambda pair: pair[0], reverse=falls)]
        found += [record for key, record in pairs if key is None]
    _check([name], headings)
    return found


def _key(value: object) -> tuple[int, float, str] | None:
    """Numbers before words; None of what is not known."""
    number = number_of(value)
    if number is not None:
        return 0, number, ""
    return None if value is None or isinstance(value, Noise) else (1, 0.0, str(value))


def with_columns(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """The tables with these columns alone, in this order, and the numbers that notes cite.

    Raises InvalidRequest where no table has one of them.
    """
    _check(names, {heading for table in tables for heading in table.headings})
    return [_with_columns(table, names) for table in tables]


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    of = {column.heading: column for column in table.columns}
    return replace(table, columns=[of[name] for name in (ROW, *names) if name in of])


def _check(names: Iterable[str], headings: set[str]) -> None:
    for name in names:
        if name not in headings:
            raise InvalidRequest(f"column {name!r}: {near(name, headings)}there are {', '.join(sorted(headings))}")
