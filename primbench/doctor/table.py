"""The table of causes, put together of the files in ``primbench/causes/``.

These stand above whatever walks the table, so that a row may use what is known of two places and of a job, as kernels
stand above ``primbench.registry``. So they are found here, and not imported by name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from primbench.environment.comparable import meaning_of
from primbench.spec.settings import SETTINGS
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.cause import Cause

_FOLDER = "primbench.causes"


@functools.cache
def causes() -> dict[str, Cause]:
    """Id -> cause, file after file by their RANK, and as they stand there.

    Raises ValueError where two rows have one id, or where one names another that is not there.
    """
    rows = list(_rows())
    table = {row.id: row for row in rows}
    twice = [row.id for row in rows if table[row.id] is not row]
    unknown = {named for row in rows for named in (*row.explains_away, row.under or row.id)} - table.keys()
    if twice or unknown:
        raise ValueError(f"causes: there twice: {twice}; named, and not there: {sorted(unknown)}")
    return table


def _rows() -> Iterator[Cause]:
    package = importlib.import_module(_FOLDER)
    files = [importlib.import_module(f"{_FOLDER}.{found.name}") for found in pkgutil.iter_modules(package.__path__)]
    for file in sorted(files, key=lambda each: each.RANK):
        yield from file.CAUSES


def settings_of(cause: Cause) -> list[str]:
    """Keys of the settings of an arm that bring the cause about, and are left out where it is to be taken away."""
    return [
        row.key
        for row in SETTINGS.values()
        if cause.id in (row.rule, *(meaning_of(FactId(*fact)).rule for fact in row.shows))
    ]


def leading(cause: Cause) -> Cause:
    """The cause whose bounds and order it has, which is itself where it comes under none."""
    return causes()[cause.under] if cause.under else cause
