"""Settings of the environment: variables that are set, and others that are not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from primbench.spec.confidential import HIDDEN
from primbench.spec.placement import THREAD_VARIABLES
from primbench.spec.setting import OF_FILES, ON_CPU, Setting
from primbench.spec.values import names, write_names
from primbench.spec.variables import LISTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.spec.setting import SeenByWorker, Surroundings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def is_said(name: str, arm: Any) -> bool:
    """Whether an arm says of a variable what it is, or has of its entries."""
    entries = (arm.entries_first, arm.entries_last, arm.entries_without)
    return any(name in said for said in (arm.variables, arm.passed, arm.unset, *entries))


def _are_variables(found: dict[str, str], arm: Any) -> str | None:
    wrong = [name for name, value in found.items() if not is_variable(name) or "\0" in value]
    return f"env.{wrong[0]}: a variable's name, such as env.OMP_NUM_THREADS" if wrong else None


def _other_variable(asked: dict[str, str], held: dict[str, str], seen: SeenByWorker) -> str | None:
    """The first variable that differs from what was asked, of those recorded; placement sets some itself."""
    set_by_placement = THREAD_VARIABLES if seen.arm.placement.threads is not None else ()
    for name, value in asked.items():
        as_recorded = None if name in set_by_placement else seen.recorded(name, value)
        if as_recorded is not None and held.get(name) not in (value, as_recorded) and "~" not in held.get(name, ""):
            return f"{name}={held[name]}" if name in held else f"no {name}"
    return None


def _readable(value: str) -> str | None:
    """A value that stands in a record whole: without a secret that was left out, or a home folder that has no name."""
    return None if HIDDEN in value or "~" in value else value


def _set(found: Surroundings, variables: dict[str, str]) -> None:
    found.values.update(variables)


ENV = Setting(
    "env", "variables", dict[str, str], "Variables of the worker's environment; without a value, as they are here.",
    "OMP_NUM_THREADS=1", default={}, check=_are_variables, surroundings=_set, is_place=True,
    fact=("software", "variables"), unlike=_other_variable, recorded=_readable,
)  # fmt: skip


def _not_otherwise(found: tuple[str, ...], arm: Any) -> str | None:
    for name in found:
        if not is_variable(name):
            return f"unset={name}: a variable's name, such as unset=OMP_NUM_THREADS"
        if name in (*arm.variables, *arm.passed):
            return f"unset with env.{name}: one of them; leave the other out"
        if name in THREAD_VARIABLES and arm.placement.threads is not None:
            return f"unset={name} with threads={arm.placement.threads}, which sets it: leave one of them out"
    return None


def _unset(found: Surroundings, unset: tuple[str, ...]) -> None:
    for name in unset:
        found.values.pop(name, None)


def _still_set(asked: tuple[str, ...], held: dict[str, str], seen: SeenByWorker) -> str | None:
    return next((f"{name}={held[name]}" for name in asked if name in held), None)


def _entries(name: str, value: str) -> list[str]:
    return value.split(LISTS[name]) if value else []


def _wrong_entries(key: str, name: str, entries: str, arm: Any) -> str | None:
    if name not in LISTS:
        return f"{key}.{name}: of variables that are lists: {', '.join(LISTS)}"
    if not entries:
        return f"{key}.{name}=: at least one entry, such as {key}.PATH=/opt/bin"
    if name in (*arm.variables, *arm.unset):
        other = f"env.{name}" if name in arm.variables else f"unset={name}"
        return f"{key}.{name} with {other}: one of them; leave the other out"
    return None


def _of_entries(
    key: str, field: str, what: str,
    change: Callable[[list[str], list[str]], list[str]], is_met: Callable[[list[str], list[str]], bool],
) -> Setting:  # fmt: skip
    """A setting of entries of variables that are lists.

    change: what the entries are, of those before and its own. is_met: whether they are so, of those found and its own.
    """

    def are_lists(found: dict[str, str], arm: Any) -> str | None:
        return next(filter(None, (_wrong_entries(key, *each, arm) for each in found.items())), None)

    def surroundings(found: Surroundings, asked: dict[str, str]) -> None:
        for name, entries in asked.items():
            held = change(_entries(name, found.values.pop(name, "")), _entries(name, entries))
            found.values |= {name: LISTS[name].join(held)} if held else {}

    def unlike(asked: dict[str, str], held: dict[str, str], seen: SeenByWorker) -> str | None:
        for name, entries in asked.items():
            as_recorded, value = seen.recorded(name, entries), held.get(name, "")
            if as_recorded is not None and not is_met(_entries(name, value), _entries(name, as_recorded)):
                return f"{name}={value}"
        return None

    return Setting(
        key, field, dict[str, str], what, "PATH=/opt/bin", default={}, check=are_lists, surroundings=surroundings,
        fact=("software", "variables"), unlike=unlike, moves=(*ON_CPU, *OF_FILES),
        programs=bool, of_this_machine=True,
    )  # fmt: skip


UNSET = Setting(
    "unset", "unset", tuple[str, ...], "Variables that are not set, be they set where the study is started.",
    "OMP_NUM_THREADS+LD_PRELOAD", parse=names, write=write_names, default=(), check=_not_otherwise,
    surroundings=_unset, fact=("software", "variables"), unlike=_still_set, programs=bool,
    mend="{who} or a number of threads that is asked for sets it: leave {key} out",
)  # fmt: skip
ROWS = (
    ENV,
    _of_entries(
        "first", "entries_first", "Entries put before those of a variable that is a list.",
        lambda held, own: [*own, *held], lambda held, own: held[: len(own)] == own,
    ),
    _of_entries(
        "last", "entries_last", "Entries put after those of a variable that is a list.",
        lambda held, own: [*held, *own], lambda held, own: held[len(held) - len(own) :] == own,
    ),
    _of_entries(
        "without", "entries_without", "Entries taken out of a variable that is a list.",
        lambda held, own: [each for each in held if each not in own], lambda held, own: {*held}.isdisjoint(own),
    ),
    UNSET,
)  # fmt: skip
