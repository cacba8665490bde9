"""The fingerprint for people: what was found, where it was read, what could not be; and what tells two apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from primbench.environment.fingerprint import GROUPS, Environment
from primbench.environment.words import YES_NO, in_words, parted
from primbench.report.document import Document, Note, Section, Table
from primbench.report.plain import printable
from primbench.report.topology import caches
from primbench.system.meaning import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.environment.difference import Change, Difference, LayerDifference
    from primbench.system.meaning import FactId


def document(environment: Environment, sources: Mapping[str, str]) -> Document:
    """What was found, the whole with where it is read."""
    return Document(
        title="environment",
        answer=None,
        sections=lambda: [Section("", tables(environment, sources))],
        value=msgspec.to_builtins(environment) | {"sources": sources},
    )


def tables(environment: Environment, sources: Mapping[str, str]) -> list[Table]:
    """Groups of name, value and where it was read; what is unknown, with the reasons, at the end of each."""
    found = msgspec.to_builtins(environment, str_keys=True)
    found["machine"]["last_level_caches"] = caches(environment.machine.last_level_caches or [])
    groups = {name: value for name, value in found.items() if isinstance(value, dict) and name != "missing"}
    rest = {name: value for name, value in found.items() if name not in groups}
    return [_group(name, value, sources) for name, value in ({"place": rest} | groups).items()]


def _group(title: str, fields: Mapping[str, Any], sources: Mapping[str, str]) -> Table:
    missing, facts = fields["missing"], facts_of(GROUPS.get(title, Environment))
    rows: list[tuple[str, ...]] = []
    for name, value in fields.items():
        if name not in missing and name != "missing":
            absent = "no limit" if facts[name].is_no_limit else "-"
            first, *others = _rows(name, value, absent)
            rows += [(*first, sources.get(f"{title}.{name}", sources.get(name, ""))), *others]
    if missing:
        rows += [("unknown:", ""), *((f"  {name}", reason) for name, reason in missing.items())]
    return Table.listed(title, rows, ("", "", ""))


def _rows(name: str, value: Any, absent: str) -> Iterator[tuple[str, str]]:
    """Name and value; what has parts has a row for each below its own."""
    value = _numbered(value)
    if not isinstance(value, dict) or all(isinstance(each, int) for each in value.values()):
        yield name, shown(name, value, absent)
        return
    parts, missing = parted(value)
    yield name, ""
    for part, inner in parts.items():
        if part not in missing:
            yield from ((f"  {inner_name}", text) for inner_name, text in _rows(part, inner, "-"))
    yield from ((f"  {part}", f"unknown: {reason}") for part, reason in missing.items())


def _numbered(value: Any) -> Any:
    """A list of what has parts as a table by number; one that is alone in it by itself; any other value as it is."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0] if len(value) == 1 else {str(number): each for number, each in enumerate(value)}
    return value


def shown(name: str | FactId, value: Any, absent: str = "-") -> str:
    """in_words(), with nothing in it that could steer a terminal."""
    return printable(in_words(name, value, absent))


def difference_document(found: Difference, name_a: str, name_b: str) -> Document:
    """A verdict for each part, and what differs below it. name_a, name_b: of the files."""
    names = Section("", [Note(f"A: {name_a}"), Note(f"B: {name_b}")])
    parts = Section("", [_part(part, getattr(found, part)) for part in found.__struct_fields__])
    return Document(title=f"{name_b} beside {name_a}", answer=None, sections=lambda: [names, parts], value=found)


def _part(name: str, part: LayerDifference) -> Table:
    order = ("differs", "unknown", "varies")
    changes = sorted(part.changes, key=lambda change: order.index(change.kind))
    same = "cannot be told" if part.same is None else YES_NO[part.same]
    return Table.listed(f"same {name}: {same}", map(_side_by_side, changes), ("", "A", "B", ""))


def _side_by_side(change: Change) -> tuple[str, ...]:
    absent = "no limit" if change.field[0] == "limits" else "none"
    a, b, note = change.a, change.b, ""
    if change.reason is not None:
        absent, note = "unknown", f"({change.reason})"
    elif change.kind == "varies":
        note = "(varies)"
    elif _is_set(a) and _is_set(b):
        a, b, note = [each for each in a if each not in b], [each for each in b if each not in a], "(on one side only)"
    return str(change.field), shown(change.field, a, absent), shown(change.field, b, absent), note


def _is_set(value: Any) -> bool:
    """Whether a value is a list of names, of which only those are shown that one side lacks."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
