"""An arm as values that can be moved to another arm one by one, and back."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from primbench.spec.arm import Arm
from primbench.spec.placement import Placement
from primbench.spec.settings import PLACEMENT, SETTINGS
from primbench.spec.settings.variables import ENV, UNSET
from primbench.spec.variables import LISTS, is_for_libraries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.spec.setting import Setting

Atom = tuple[str, ...]
"""Where a value of an arm stands: its field, and what it is in there, as a variable's name, then an entry of it."""
Values = dict[Atom, Any]
_PLACED = {row.field: row for row in PLACEMENT.values()}
_PLACEMENT, _NEIGHBOUR = "placement", "neighbour"


class _Kept(enum.Enum):
    """What is asked for of a variable in place of a value; how it stands in words."""

    UNSET = f"{UNSET.key}="
    PASSED = f"{ENV.key}."


def lists_of(*arms: Arm) -> dict[str, str]:
    """Variables that some of the arms set and all have as a list: name -> what those have that do not set it."""
    named = dict.fromkeys(name for arm in arms for name in arm.variables if name in LISTS)
    otherwise = {name for arm in arms for name in (*arm.unset, *arm.passed)}
    found = {name: _inherited(arms[0], name) for name in named if name not in otherwise}
    return {name: value for name, value in found.items() if _are_in_order(name, value, arms)}


def _inherited(arm: Arm, name: str) -> str:
    is_taken_over = arm.on_host_root and (is_for_libraries(name) or name == "PATH")
    return os.environ.get(name, "") if is_taken_over else ""


def _are_in_order(name: str, inherited: str, arms: Sequence[Arm]) -> bool:
    """Whether each has an entry once, and what all have in common stands in one order."""
    held = [_entries(name, arm.variables.get(name, inherited)) for arm in arms]
    common = set(held[0]).intersection(*held)
    orders = [[each for each in one if each in common] for one in held]
    return all(len(one) == len({*one}) for one in held) and all(order == orders[0] for order in orders)


def _entries(name: str, value: str) -> list[str]:
    return value.split(LISTS[name]) if value else []


def values_of(arm: Arm, lists: Mapping[str, str]) -> Values:
    """All that is set, but for what names another machine. lists: as lists_of() has them."""
    found: Values = {}
    for row in SETTINGS.values():
        value = getattr(arm, row.field)
        if row not in (ENV, UNSET) and not row.is_place and value != row.default:
            found.update(_of_setting(row, value))
    found.update(_of_variables(arm, lists))
    found.update(((_PLACEMENT, field), value) for field, value in asdict(arm.placement).items() if value is not None)
    return found if arm.neighbour is None else {**found, (_NEIGHBOUR,): arm.neighbour}


def _of_setting(row: Setting, value: Any) -> Iterator[tuple[Atom, Any]]:
    if row.is_each:
        yield from (((row.field, name, each), each) for name, held in value.items() for each in _entries(name, held))
    elif row.default == ():
        yield from (((row.field, row.named(each)), each) for each in value)
    else:
        yield (row.field,), value


def _of_variables(arm: Arm, lists: Mapping[str, str]) -> Iterator[tuple[Atom, Any]]:
    kept = {**dict.fromkeys(arm.unset, _Kept.UNSET), **dict.fromkeys(arm.passed, _Kept.PASSED)}
    for name, value in {**lists, **arm.variables, **kept}.items():
        if name in lists:
            yield from (((ENV.field, name, each), each) for each in _entries(name, value))
        else:
            yield (ENV.field, name), value


def arm_with(like: Arm, name: str, values: Iterable[tuple[Atom, Any]], lists: Mapping[str, str]) -> Arm:
    """An arm of this name and these values, on the machine of another. Raises InvalidRequest where they contradict."""
    fields: dict[str, Any] = {row.field: getattr(like, row.field) for row in SETTINGS.values() if row.is_place}
    fields |= {ENV.field: {}, UNSET.field: (), "passed": ()}
    listed: dict[tuple[str, str], list[str]] = {(ENV.field, name): [] for name in lists}
    placed: dict[str, Any] = {}
    for (field, *within), value in values:
        if field == _PLACEMENT:
            placed[within[0]] = value
        elif len(within) == 2:
            listed.setdefault((field, within[0]), []).append(value)
        elif field == ENV.field:
            _set_variable(fields, within[0], value)
        elif within:
            fields[field] = (*fields.get(field, ()), value)
        else:
            fields[field] = value
    for (field, name_of), entries in listed.items():
        _set_list(fields, field, name_of, entries, lists)
    return Arm(name=name, runtime=like.runtime, placement=Placement(**placed), **fields)


def _set_variable(fields: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, _Kept):
        field = UNSET.field if value is _Kept.UNSET else "passed"
        fields[field] = (*fields[field], name)
    else:
        fields[ENV.field][name] = value


def _set_list(fields: dict[str, Any], field: str, name: str, entries: Sequence[str], lists: Mapping[str, str]) -> None:
    value = LISTS[name].join(entries)
    if field != ENV.field:
        fields.setdefault(field, {})[name] = value
    elif value != lists[name]:
        _set_variable(fields, name, value or _Kept.UNSET)


def merged(one: Sequence[Atom], other: Sequence[Atom]) -> list[Atom]:
    """Each once: those of the other in its order, and what the one has alone behind what it follows there."""
    found, place = [*other], 0
    for atom in one:
        if atom not in found:
            found.insert(place, atom)
        place = found.index(atom) + 1
    return found


def said(atom: Atom, before: Any, value: Any) -> str:
    """What becomes of a value, in an arm's words; None is not set."""
    return f"no {_said(atom, before)}" if value is None else _said(atom, value)


def _said(atom: Atom, value: Any) -> str:
    field, *within = atom
    if field == _NEIGHBOUR:
        return f"beside {value.name}"
    if field == _PLACEMENT:
        return _PLACED[within[0]].said(value)
    row = SETTINGS[field]
    if isinstance(value, _Kept):
        return f"{value.value}{within[0]}"
    if row.is_each:
        return row.said({within[0]: value})
    return row.said((value,) if within else value)
