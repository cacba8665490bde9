"""A value of a place in words, by which two of them are alike that are written alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_frequency, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from primbench.system.meaning import FactId

YES_NO = {True: "yes", False: "no"}
_UNITS: dict[str, Callable[[float], str]] = {
    "bytes": lambda value: format_bytes(int(value)),
    "s": format_time,
    "hz": format_frequency,
    "w": lambda value: f"{value:g} W",
}


def parted(group: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A group's entries without the reasons for those that are missing, and these reasons.

    An entry may be called "missing" itself, as a variable of the environment: it is no table.
    """
    reasons = group.get("missing")
    if not isinstance(reasons, dict):
        return {**group}, {}
    return {name: value for name, value in group.items() if name != "missing"}, reasons


def in_words(field: str | FactId, value: Any, absent: str = "none") -> str:
    """In people's units, which the end of the field's name tells: _bytes, _s, _hz or _w. absent: for None."""
    if value is None or value in ("", [], {}):
        return absent if value is None else "none"
    if isinstance(value, bool):
        return YES_NO[value]
    if isinstance(value, int | float):
        return _quantity(field, value)
    if isinstance(value, list):
        return _listed(field, value)
    if isinstance(value, dict):
        return _entries(field, value)
    return str(value)


def are_alike(field: str | FactId, one: Any, other: Any) -> bool:
    """Whether a reader could not tell them apart: sizes alike in 3 digits, a list without entries and none."""
    return one == other or in_words(field, one) == in_words(field, other)


def _entries(field: str | FactId, values: dict[str, Any]) -> str:
    """Each in its own unit, or in that of all of them."""
    named = {part: part if unit_of(part) else field for part in parted(values)[0]}
    return ", ".join(f"{part} {in_words(name, values[part], '-')}" for part, name in named.items())


def _listed(field: str | FactId, values: list[Any]) -> str:
    if all(isinstance(each, int) for each in values):
        return format_cpu_list(values)
    return ", ".join(in_words(field, each, "-") for each in values)


def unit_of(name: str) -> str:
    """ "" where the end of the name tells none."""
    end = name.rpartition("_")[2]
    return end if end in _UNITS and end != name else ""


def _quantity(field: str | FactId, value: float) -> str:
    """By the last part of a fact's id that has a unit: an entry may be named by what it is of."""
    parts = [field] if isinstance(field, str) else [each for each in field if isinstance(each, str)]
    unit = next(filter(None, map(unit_of, reversed(parts))), "")
    return _UNITS.get(unit, str)(value)
