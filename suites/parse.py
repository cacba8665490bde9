"""What a suite's document says: its rows, checked, and the problems of each."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from primbench.devices import KINDS
from primbench.dtypes import full_name
from primbench.errors import FileError, InvalidField, InvalidRequest, cut, near
from primbench.problem import fields_of
from primbench.registry import build, problem_class, summaries
from primbench.spec.captured import Captured
from primbench.spec.published import Published
from primbench.system.document import read_document
from primbench.units import parse_counts

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from dataclasses import Field

    from primbench.problem import Problem, Value

HEADER = ("title", "source", "licence", "note")
STUDY = ("arm", "beside", "pairs", "seed", "published", "captured")
KEYS = (*HEADER, *STUDY, "defaults")
"""What a suite can say besides its primitives."""
OF_ONES_OWN = "a primitive of your own: primbench --kernels FILE.py; "
LABELS = (
    "set", "application", "id", "label", "phase", "device", "backend", "above", "count", "reuse_bytes", "in_step_ns",
)  # fmt: skip
LEAST = {"count": 1, "reuse_bytes": 0, "in_step_ns": 0}
"""Labels that are whole numbers, and the least that each can be."""
SEVERAL = ("reuse_bytes",)
"""Those of them that may be lists."""
MOST_PAIRS = 1000
"""Of a study, whether a suite or the command line asks for them."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_MAX_PROBLEMS = 10_000
_INTEGERS = range(-(2**63), 2**63)  # TOML 1.0, "Integer"


@dataclass(frozen=True)
class Row:
    """An entry as written, every field with all its values. where: "FILE: gemm entry 3"."""

    where: str
    primitive: str
    fields: dict[str, list[Value]]
    labels: dict[str, str]


@dataclass(frozen=True)
class Suite:
    source: str
    title: str
    rows: list[Row]
    arms: list[Any] = field(default_factory=list)
    pairs: int | None = None
    seed: int | None = None
    beside: dict[str, str] = field(default_factory=dict)
    published: Published | None = None
    captured: Captured | None = None


def parse(source: str, path: str | os.PathLike[str], *, is_shipped: bool = False, only: Collection[str] = ()) -> Suite:
    """The suite in a file, each entry checked. source: what messages call the file.

    is_shipped: whether it came with primbench; then entries of primitives that are not here are left out. only:
    primitives whose entries are read, all where empty.

    Raises FileError, or FileNotFoundError where there is none.
    """
    document = _document(source, path, is_shipped=is_shipped)
    defaults = document.pop("defaults")
    header = {key: document.pop(key) for key in HEADER if key in document}
    study = _study(source, {key: document.pop(key) for key in STUDY if key in document})
    rows = [
        row
        for primitive, entries in document.items()
        if primitive in (only or document)
        for row in _rows(source, primitive, entries, defaults.get(primitive, {}))
    ]
    if not any(document.values()):
        raise FileError(f"{source}: no entries: write some, as in gemm = [{{ m = 64, n = 64, k = 64 }}]")
    return Suite(source, header.get("title", source), rows, **study)


def _document(source: str, path: str | os.PathLike[str], *, is_shipped: bool) -> dict[str, Any]:
    """Of keys that are known, with the defaults of primitives, if none are said."""
    primitives = summaries()
    document = read_document(source, path)
    defaults = _table(document.get("defaults", {}), f"{source}: defaults")
    if is_shipped:
        document = {key: said for key, said in document.items() if key in KEYS or key in primitives}
        defaults = {key: said for key, said in defaults.items() if key in primitives}
    _check_keys(source, document, [*KEYS, *primitives], OF_ONES_OWN)
    for key in HEADER:
        if not isinstance(document.get(key, ""), str):
            raise FileError(f"{source}: {key} is not a string")
    _check_keys(f"{source}: defaults", defaults, list(primitives), OF_ONES_OWN)
    return document | {"defaults": defaults}


def _check_keys(where: str, keys: Iterable[str], known: Sequence[str], others: str = "") -> None:
    """others: which keys there may be beside those that are known."""
    for key in keys:
        if key not in known:
            meant = f"{near(key, known)}{others}there are {', '.join(known)}"
            raise FileError(f"{where}: " + cut(f"unknown key {key!r}: {meant}"))


def _study(source: str, said: dict[str, Any]) -> dict[str, Any]:
    """What a suite says of a study, checked; what an arm or a neighbour says is for others to read."""
    pairs, seed, arms = said.get("pairs"), said.get("seed"), said.get("arm", [])
    if pairs is not None and (type(pairs) is not int or not 1 <= pairs <= MOST_PAIRS):
        raise FileError(f"{source}: pairs is not a whole number from 1 to {MOST_PAIRS}")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise FileError(f"{source}: seed is not a whole number of at least 0")
    if not isinstance(arms, list) or not all(isinstance(arm, str | dict) for arm in arms):
        raise FileError(f"{source}: arm is not a list of strings and tables: write [[arm]] above each table")
    others: dict[str, Any] = {
        "beside": _beside(source, said.get("beside", {})),
        "published": _said(source, said, "published", Published),
        "captured": _said(source, said, "captured", Captured),
    }
    return {"arms": arms, "pairs": pairs, "seed": seed} | others


def _beside(source: str, said: Any) -> dict[str, str]:
    words = said if isinstance(said, dict) else dict.fromkeys(KINDS, said)
    if words.keys() <= set(KINDS) and all(isinstance(each, str) for each in words.values()):
        return words
    raise FileError(
        f'{source}: beside is a primitive and its options in a string, as "model alexnet", or a table of such for cpu '
        "and cuda"
    )


def _said(source: str, said: dict[str, Any], key: str, kind: type[_Struct]) -> _Struct | None:
    try:
        return msgspec.convert(said[key], kind) if key in said else None
    except msgspec.ValidationError as error:
        raise FileError(f"{source}: {key}: {cut(str(error))}") from None


def _rows(source: str, primitive: str, entries: Any, defaults: Any) -> list[Row]:
    defaults = _table(defaults, f"{source}: defaults.{primitive}")
    if not isinstance(entries, list):
        raise FileError(f"{source}: {primitive} is not a list of entries: write [[{primitive}]] above each")
    rows = []
    for number, entry in enumerate(entries, 1):
        where = f"{source}: {primitive} entry {number}"
        row = _row(where, primitive, defaults | _table(entry, where))
        try:
            list(problems(row, {}))
        except InvalidRequest as error:
            raise FileError(str(error)) from None
        rows.append(row)
    return rows


def _row(where: str, primitive: str, entry: dict[str, Any]) -> Row:
    _check_labels(where, entry)
    labels = {key: str(entry[key]) for key in LABELS if key in entry}
    known = {field.name: field for field in fields_of(problem_class(primitive))}
    fields = {key: _values(where, key, value, known.get(key)) for key, value in entry.items() if key not in LABELS}
    if math.prod(map(len, fields.values())) > _MAX_PROBLEMS:
        raise FileError(f"{where}: its lists make more than {_MAX_PROBLEMS} problems")
    return Row(where, primitive, fields, labels)


def _check_labels(where: str, entry: Mapping[str, Any]) -> None:
    for key, value in entry.items():
        if key in LEAST:
            _check_numbers(where, key, value)
        if key in LABELS and key not in LEAST and not isinstance(value, str):
            raise FileError(f"{where}: {key} is not a string")
        if key == "device" and value not in KINDS:
            raise FileError(f"{where}: device is neither cpu nor cuda")


def _check_numbers(where: str, key: str, value: Any) -> None:
    numbers = value if key in SEVERAL and isinstance(value, list) and value else [value]
    if not all(type(each) is int and each >= LEAST[key] for each in numbers):
        or_several = ", or a list of these" * (key in SEVERAL)
        raise FileError(f"{where}: {key} is not a whole number of at least {LEAST[key]}{or_several}")


def _values(where: str, field: str, said: Any, known: Field[Any] | None) -> list[Value]:
    """The values of a field, which may be given as one or as a list, each also as it is typed for its option."""
    values = said if isinstance(said, list) else [said]
    if not all(_is_value(value) for value in values):
        raise FileError(f"{where}: {cut(repr(field))} is not a number of 64 bits, a string, true or false")
    if not values:
        raise FileError(f"{where}: {cut(repr(field))} is an empty list: leave the field away, or name a value")
    try:
        return [each for value in values for each in _read(field, value, known)]
    except InvalidRequest as error:
        raise FileError(f"{where}: {field}: {cut(str(error))}") from None


def _read(field: str, value: Value, known: Field[Any] | None) -> Sequence[Value]:
    if not isinstance(value, str) or known is None:
        return [value]
    if known.metadata.get("size"):
        return parse_counts(value, known.metadata["unit"])
    return [full_name(value) if field == "dtype" else value]


def _is_value(value: Any) -> bool:
    return isinstance(value, int | float | str) and (not isinstance(value, int) or value in _INTEGERS)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(f"{where} is not a table")
    return value


def problems(row: Row, replaced: Mapping[str, Sequence[Value]]) -> Iterator[Problem]:
    """The product of the values of every field."""
    lists: dict[str, Sequence[Value]] = {**row.fields, **replaced}
    for values in itertools.product(*lists.values()):
        fields = dict(zip(lists, values, strict=True))
        try:
            yield build(row.primitive, fields)
        except InvalidRequest as error:
            changed = " with " + ", ".join(f"{field}={fields[field]!r}" for field in replaced)
            reason = str(error).removeprefix(f"{row.primitive} ")
            kind = InvalidField if replaced else InvalidRequest  # what the file says is not worded as an option
            raise kind(f"{row.where}{changed if replaced else ''}: {cut(reason)}") from None
