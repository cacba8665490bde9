"""How cases are measured, by `run` or a primitive's command, that are not measured here alone: a file a way.

A file has its place among the others as ``RANK``; ``REQUEST``, a request of the options that the way has; ``FLAG``, the
one that asks for it, whose field is called as the file; ``refuse``, for where others are given without it;
``ON_MANY_NODES``, whether a launcher starts a process for each node, and not a rank of one call; and ``measure``, which
has the cases measured, and says what came out. It is found here by its name.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here


@functools.cache
def _known() -> dict[str, Any]:
    """Name -> file, by rank."""
    listed = [name for folder in __path__ for name in os.listdir(folder)]  # to import pkgutil takes --help longer
    names = [name.removesuffix(".py") for name in listed if name.endswith(".py") and not name.startswith("_")]
    files: dict[str, ModuleType] = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return dict(sorted(files.items(), key=lambda each: each[1].RANK))


def requests() -> dict[str, type[Any]]:
    """Name -> what can be asked for of each way."""
    return {name: way.REQUEST for name, way in _known().items()}


def _asked_for(asked: Mapping[str, Any]) -> str | None:
    """The one way that is asked for. Raises InvalidRequest where there are several, or what goes with another one."""
    found = [name for name in asked if getattr(asked[name], name) not in (None, ())]
    if len(found) > 1:
        raise InvalidRequest(f"{' and '.join(_known()[name].FLAG for name in found)}: ask for one of them")
    for name in asked.keys() - found:
        _known()[name].refuse(asked[name])
    return found[0] if found else None


def is_on_many_nodes(asked: Mapping[str, Any]) -> bool:
    """Whether a launcher started this for other nodes, and not as a rank of one call."""
    name = _asked_for(asked)
    return name is not None and _known()[name].ON_MANY_NODES


def measure(entries: Entries, here: Here, asked: Mapping[str, Any]) -> None:
    """Exits as measure_and_report() or `study` do."""
    from primbench.cli.measuring import measure_and_report  # after --help, which takes no longer than click itself

    name = _asked_for(asked)
    if name is None:
        measure_and_report(entries, here)
        return
    _known()[name].measure(entries, here, asked[name])
