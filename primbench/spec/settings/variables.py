"""Settings of the environment: variables that are set, and others that are not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from primbench.spec.placement import THREAD_VARIABLES
from primbench.spec.setting import Setting

if TYPE_CHECKING:
    from primbench.spec.setting import Seen, Surroundings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def _are_variables(found: dict[str, str], arm: Any) -> str | None:
    wrong = [name for name, value in found.items() if not is_variable(name) or "\0" in value]
    return f"env.{wrong[0]}: a variable's name, such as env.OMP_NUM_THREADS" if wrong else None


def _other_variable(asked: dict[str, str], held: dict[str, str], seen: Seen) -> str | None:
    """The first variable that differs from what was asked, of those recorded; placement sets some itself."""
    set_by_placement = THREAD_VARIABLES if seen.arm.placement.threads is not None else ()
    for name, value in asked.items():
        as_recorded = None if name in set_by_placement else seen.recorded(name, value)
        if as_recorded is not None and held.get(name) not in (value, as_recorded) and "~" not in held.get(name, ""):
            return f"{name}={held[name]}" if name in held else f"no {name}"
    return None


def _set(found: Surroundings, variables: dict[str, str]) -> None:
    found.values.update(variables)


ENV = Setting(
    "env", "variables", dict[str, str], "Variables of the worker's environment; without a value, as they are here.",
    "OMP_NUM_THREADS=1", default={}, check=_are_variables, surroundings=_set, is_place=True,
    fact=("software", "variables"), unlike=_other_variable,
)  # fmt: skip
ROWS = (ENV,)
