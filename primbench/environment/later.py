"""What others changed of a process's place after it had told of it: its limits, and who looks at what it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench.environment import confinement, limits
from primbench.environment.comparable import meaning_of
from primbench.environment.confinement import Confinement
from primbench.environment.costs import open_temporary_s
from primbench.environment.limits import READERS, Limits
from primbench.environment.reading import read_all
from primbench.system.files import attempt
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from primbench.environment.fingerprint import Environment

# By how much more a reading tells of another place: the same one reads otherwise each time, and interruptions are
# counted in steps of 2000 Hz.
_NOTABLE = {"interruptions_hz": 2000.0, "open_file_s": 20e-6, "open_temporary_s": 20e-6, "system_call_s": 0.5e-6}
# Beside load one look in a hundred counts interruptions that the next does not: what changed for good is seen again.
_LOOKS = 3
_SETTINGS = ("probed", "loopback", "tracer")
_CHANGEABLE = {name: confinement.READERS[name] for name in (*_SETTINGS, *_NOTABLE, "watchers")}


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """Both as a whole, where any field of them that says something of the place has another value by now."""

    limits: Limits
    confinement: Confinement

    def of(self, told: Environment) -> Environment:
        """The place as it was then."""
        return replace(told, limits=self.limits, confinement=self.confinement)


def later(told: Environment, folder: str | None = None, root: Path = Path("/")) -> Later | None:
    """None where all is as it was told, in any of a few looks. Takes some 10 ms, and three times that where something
    changed: not while anything is timed.

    folder: where temporary files are opened; None is where all others are.
    """
    for _ in range(_LOOKS):
        found = _look(told, folder, root)
        if not _is_other(told.limits, told.confinement, found):
            return None
    return found


def _look(told: Environment, folder: str | None, root: Path) -> Later:
    now = read_all(_CHANGEABLE, root)
    opened_s = attempt({}, "", lambda: open_temporary_s(folder)) if folder else None
    now |= {} if opened_s is None else {"open_temporary_s": opened_s}
    missing = {name: why for name, why in told.confinement.missing.items() if name not in _CHANGEABLE}
    return Later(
        limits=limits.collect(root),
        confinement=replace(told.confinement, **now | {"missing": missing | now["missing"]}),
    )


def _is_other(of_limits: Limits, of_confinement: Confinement, now: Later) -> bool:
    limited = [name for name in READERS if meaning_of(FactId("limits", name)).layer is not None]
    return (
        any(getattr(of_limits, name) != getattr(now.limits, name) for name in limited)
        or any(getattr(of_confinement, name) != getattr(now.confinement, name) for name in _SETTINGS)
        or any(_is_more(getattr(of_confinement, name), getattr(now.confinement, name), name) for name in _NOTABLE)
    )


def _is_more(told: float | None, now: float | None, name: str) -> bool:
    return told is not None and now is not None and now - told > _NOTABLE[name]
