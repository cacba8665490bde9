"""What others changed of a process's place after it had told of it: its limits, and who looks at what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from primbench.environment.confinement import Confinement
from primbench.environment.costs import open_temporary_s
from primbench.environment.devices import Devices
from primbench.environment.fingerprint import GROUPS, Environment
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.reading import read_all
from primbench.environment.software import Software
from primbench.system.files import attempt
from primbench.system.meaning import Fact, facts_of

# Beside load one look in a hundred counts interruptions that the next does not: what changed for good is seen again.
_LOOKS = 3


class Later(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Groups as a whole, where a fact of any of them is told by now, by its ``noted_from``; None as they were."""

    limits: Limits
    confinement: Confinement
    machine: Machine | None = None
    software: Software | None = None
    devices: Devices | None = None

    def of(self, told: Environment) -> Environment:
        """The place as it was then."""
        return replace(told, **{name: group for name in GROUPS if (group := getattr(self, name)) is not None})


def later(told: Environment, folder: str | None = None, root: Path = Path("/")) -> Later | None:
    """None where all is as it was told, in any of a few looks. Takes some 10 ms, and three times that where something
    changed: not while anything is timed.

    folder: where temporary files are opened; None is where all others are.
    """
    for _ in range(_LOOKS):
        now = {name: _look(getattr(told, name), facts, folder, root) for name, facts in _again().items()}
        if not any(_is_other(getattr(told, name), group, _again()[name]) for name, group in now.items()):
            return None
    return Later(**now)


def _again() -> dict[str, dict[str, Fact]]:
    """What is read again, group by group."""
    found = {
        group: {name: fact for name, fact in facts_of(kind).items() if fact.noted_from is not None}
        for group, kind in GROUPS.items()
    }
    return {group: facts for group, facts in found.items() if facts}


def _look(told: Any, facts: dict[str, Fact], folder: str | None, root: Path) -> Any:
    now = read_all(facts, root)
    opened_s = attempt({}, "", lambda: open_temporary_s(folder)) if folder and "open_temporary_s" in facts else None
    now |= {} if opened_s is None else {"open_temporary_s": opened_s}
    missing = {name: why for name, why in told.missing.items() if name not in facts}
    return replace(told, **now | {"missing": missing | now["missing"]})


def _is_other(told: Any, now: Any, facts: dict[str, Fact]) -> bool:
    return any(_is_told(fact.noted_from, getattr(told, name), getattr(now, name)) for name, fact in facts.items())


def _is_told(noted_from: float | None, told: Any, now: Any) -> bool:
    if not noted_from:
        return bool(told != now)
    known = isinstance(told, int | float) and isinstance(now, int | float)
    return known and now - told > noted_from
