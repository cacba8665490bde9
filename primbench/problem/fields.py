"""The fields of a primitive, its options and columns: how they are declared, and what values they can have."""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import TYPE_CHECKING, Any, Literal

from primbench.errors import InvalidField, InvalidRequest, near
from primbench.units import parse_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Value = int | float | str | bool
LARGEST = 2**63 - 1  # number that every reader of JSON holds as one


def size(help: str, unit: Literal["", "B"] = "", default: int | None = None) -> Any:  # noqa: A002 - as the option
    """A dimension: a whole number of at least 1, required where it has no default.

    One in bytes is read and shown with its unit, as 4KiB.
    """
    metadata = {"help": help, "size": True, "unit": unit, "least": 1}
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def option(
    default: Value,
    help: str,  # noqa: A002
    choices: Sequence[str] = (),
    *,
    least: int | None = None,
    most: int | None = None,
    is_encoded: bool = False,
) -> Any:
    """A field with a default, of the type of that. A bool becomes a flag; least and most are the limits of a number.
    One that is_encoded is for programs alone: no table and no name of a case has it.

    Raises InvalidField where the default is none of the choices, as where it stands in the place of the text.
    """
    if choices and default not in choices:
        raise InvalidField(f"option({default!r}, {help!r}): the default comes first, and is one of {tuple(choices)}")
    metadata = {"help": help, "choices": tuple(choices), "least": least, "most": most, "encoded": is_encoded}
    return dataclasses.field(default=default, metadata=metadata)


def named(help: str, names: Callable[[], Sequence[str]]) -> Any:  # noqa: A002
    """One of those that names() gives: required, and a word of its own on the command line."""
    return dataclasses.field(metadata={"help": help, "names": names})


def checked(primitive: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """The value, as a float where the field holds one. Raises InvalidField where the field cannot have it."""
    value = _whole(value)
    kind = _kind(field)
    if type(value) is int and abs(value) > LARGEST:
        raise InvalidField(f"{primitive} {field.name}: a number of {value.bit_length()} bits, 63 are the most")
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or not _is_within(value, field):
        raise InvalidField(f"{primitive} {field.name}={value!r}: {_meant(value, field)}{_expected(kind, field)}")
    return value


def in_field(primitive: str, field: dataclasses.Field[Any], word: str) -> Value:
    """The value that a word stands for in a field. Raises InvalidField where it stands for none."""
    kind = _kind(field)
    if kind is str:
        return word
    try:
        if kind is bool:
            return {"yes": True, "true": True, "no": False, "false": False}[word.lower()]
        return float(word) if kind is float else _one(word, field.metadata.get("unit", ""))
    except (KeyError, ValueError):
        raise InvalidField(f"{primitive} {field.name}={word}: {_expected(kind, field)}") from None


def _one(word: str, unit: Literal["", "B"]) -> int:
    """A whole number. Raises ValueError for anything else."""
    try:
        (found,) = parse_counts(word, unit)
    except InvalidRequest as wrong:
        raise ValueError from wrong
    return found


def _kind(field: dataclasses.Field[Any]) -> type:
    """The type of its values."""
    return int if field.metadata.get("size") else str if "names" in field.metadata else type(field.default)


def _whole(value: Any) -> Any:
    """A whole number of NumPy's or the like as Python's own, which records can hold; all else as it is."""
    if type(value) in (int, bool, str, float) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:  # an array of several
        return value


def _is_within(value: Any, field: dataclasses.Field[Any]) -> bool:
    if isinstance(value, str):
        choices = _choices(field)
        return not choices or value in choices
    if isinstance(value, bool):
        return True
    least, most = _limits(field)
    return math.isfinite(value) and least <= value <= most


def _choices(field: dataclasses.Field[Any]) -> Sequence[str]:
    names: Callable[[], Sequence[str]] | None = field.metadata.get("names")
    return names() if names else field.metadata.get("choices", ())


def _meant(value: Any, field: dataclasses.Field[Any]) -> str:
    """The nearest of many names; of choices there are few."""
    return near(value, _choices(field)) if isinstance(value, str) and "names" in field.metadata else ""


def _expected(kind: type, field: dataclasses.Field[Any]) -> str:
    if kind is bool:
        return "True or False"
    if kind is str:
        choices = _choices(field)
        of_ones_own = "of your own by primbench --kernels FILE.py, or " if "names" in field.metadata else ""
        return f"one {of_ones_own}of {', '.join(map(str, filter(None, choices)))}" if choices else "a text"
    noun = {int: "a whole number", float: "a finite number"}[kind]
    least, most = _limits(field)
    if least == -math.inf:
        return noun
    return f"{noun} of at least {least}" if most == math.inf else f"{noun} from {least} to {most}"


def _limits(field: dataclasses.Field[Any]) -> tuple[float, float]:
    least, most = (field.metadata.get(name) for name in ("least", "most"))
    return -math.inf if least is None else least, math.inf if most is None else most
