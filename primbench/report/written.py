"""The formats that there are: every file of ``primbench.report.formats``."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import os
from typing import TYPE_CHECKING, Protocol, cast

from primbench.errors import InvalidRequest
from primbench.report import formats

if TYPE_CHECKING:
    from primbench.report.document import Document


class ReportFormat(Protocol):
    """What a file has, and, where few people use it, ``IS_RARE = True``."""

    RANK: int
    WRITES: str

    def write(self, document: Document, /) -> str | bytes: ...


@functools.cache
def known() -> dict[str, ReportFormat]:
    """Name -> format, in the order of their ranks."""
    listed = itertools.chain(*map(os.listdir, formats.__path__))  # to import pkgutil takes --help longer than all this
    names = [name.removesuffix(".py") for name in listed if name.endswith(".py") and not name.startswith("_")]
    found = {name: cast("ReportFormat", importlib.import_module(f"{formats.__name__}.{name}")) for name in names}
    return dict(sorted(found.items(), key=lambda pair: (pair[1].RANK, pair[0])))


def check(name: str) -> None:
    """Raises InvalidRequest where a package is not installed that a format is written with, its ``NEEDS``."""
    needed = getattr(known()[name], "NEEDS", ())
    if absent := [each for each in needed if importlib.util.find_spec(each) is None]:
        raise InvalidRequest(f"--{name}: needs {' and '.join(absent)}: pip install 'primbench[report]'")
