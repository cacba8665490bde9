"""What others changed of a process's place after it had told of it: its limits, and who looks at what it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench.environment import confinement, limits
from primbench.environment.comparable import meaning_of
from primbench.environment.confinement import Confinement
from primbench.environment.limits import Limits
from primbench.environment.reading import read_all

if TYPE_CHECKING:
    from primbench.environment.fingerprint import Environment

# What others can change from outside and is read in well under a millisecond, without trying anything out.
_CHANGEABLE = {name: confinement.READERS[name] for name in ("probed", "loopback", "tracer")}


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """Both as a whole, where any field of them that says something of the place has another value by now."""

    limits: Limits
    confinement: Confinement

    def of(self, told: Environment) -> Environment:
        """The place as it was then."""
        return replace(told, limits=self.limits, confinement=self.confinement)


def later(told: Environment, root: Path = Path("/")) -> Later | None:
    """None where all is as it was told. Takes some 5 ms: not while anything is timed."""
    now = read_all(_CHANGEABLE, root)
    missing = {name: why for name, why in told.confinement.missing.items() if name not in _CHANGEABLE}
    found = Later(
        limits=limits.collect(root),
        confinement=replace(told.confinement, **now | {"missing": missing | now["missing"]}),
    )
    return (
        found
        if _differ("limits", told.limits, found.limits) or _differ("confinement", told.confinement, found.confinement)
        else None
    )


def _differ(group: str, told: Limits | Confinement, now: Limits | Confinement) -> bool:
    return any(
        getattr(told, name) != getattr(now, name)
        for name in told.__struct_fields__
        if name != "missing" and meaning_of(f"{group}.{name}").layer is not None
    )
