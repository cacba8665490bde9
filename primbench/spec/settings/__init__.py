"""The settings of an arm, one table: a row each, in a file by what it is about.

A new one is one more row. Its field in results files, its key in words and tables, what each runtime does for it, how
it is seen that it was done, completion, `primbench arms` and the reference follow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest
from primbench.spec.setting import Setting
from primbench.spec.settings import confinement, files, gpus, libraries, limits, machines, process, processor, variables
from primbench.spec.values import OneOf

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROWS = (
    *machines.FIRST, *processor.ROWS, *limits.ROWS, *confinement.ROWS, *files.ROWS, *confinement.LAST,
    *libraries.ROWS, *gpus.ROWS, *machines.LAST, *process.ROWS, *variables.ROWS,
)  # fmt: skip
SETTINGS = {row.field: row for row in _ROWS}
"""What a runtime has to see to, by the field of an arm that holds it, in the order in which words name them."""

NAME = Setting("name", "name", str, "The arm's own name, unique in a study.", "mine")
FIELDS = {row.key: row for row in (NAME, *_ROWS) if not row.is_each}
"""By the key in words."""
EACH = {row.key: row for row in (*_ROWS, machines.CASE) if row.is_each}
"""Those of several names, by what stands before the point of KEY.NAME."""
PLACEMENT = {row.key: row for row in machines.PLACEMENT}
FIRST_KEYS = {"ssh": "host", "slurm": "node", "k8s": "image"}
"""Runtime of other machines -> the key whose value stands first in an arm's words, without the key: "ssh:HOST"."""

_NEXT_KEY = re.compile(  # other commas belong to a value, such as a list
    rf",(?=[A-Za-z][\w.-]*=|{variables.ENV.key}\.[A-Za-z_]\w*(?:,|$))"
)


def showing(fact: Sequence[Any]) -> str | None:
    """The field of the setting that a difference in a fact, or in an entry of one, is that of; None where none is."""
    shown = ((field, each) for field, row in SETTINGS.items() for each in row.shows)
    return next((field for field, each in shown if each == fact[: len(each)]), None)


def each_of(key: str) -> tuple[Setting, str] | None:
    """The setting that KEY.NAME is one of, and the name of the variable; None where it is no such key."""
    prefix, dot, name = key.partition(".")
    return (EACH[prefix], name) if dot and prefix in EACH else None


def split_words(runtime: str, settings: str) -> list[str]:
    """Each KEY=VALUE, the first key of a runtime written out."""
    first = FIRST_KEYS.get(runtime)
    if first and settings and "=" not in settings.partition(",")[0]:
        settings = f"{first}={settings}"
    return _NEXT_KEY.split(settings) if settings else []


def pairs_of(key: str, value: Any) -> Iterable[tuple[str, str | None]]:
    """What a line of a table would be in words."""
    if key in EACH and isinstance(value, dict):
        is_passed = key == variables.ENV.key
        return [
            (f"{key}.{name}", None if each is True and is_passed else _word(name, each)) for name, each in value.items()
        ]
    if isinstance(value, list):
        return [(key, "+".join(_word(key, each) for each in value))]
    return [(key, _word(key, value))]


def _word(key: str, value: Any) -> str:
    row = FIELDS.get(key)
    if isinstance(value, bool) and row and isinstance(row.parse, OneOf) and "yes" in row.parse.words:
        return "yes" if value else "no"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRequest(
            f"[[arm]] {key} = {value!r}: neither a text nor a number: write it in quotes, as --arm has it"
        )
    return str(value)


def as_placement_key(field: str, value: object) -> str:
    """A field of a placement as an arm has it: "cpus" is a quota there."""
    return f"{next((key for key, setting in PLACEMENT.items() if setting.field == field), field)}={value}"
