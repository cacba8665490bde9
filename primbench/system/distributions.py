"""Python's distributions, by what their metadata folders say."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import Distribution


def versions(folders: Iterable[str]) -> dict[str, str]:
    """Distribution -> version, by the names of metadata folders; the first on the path counts, as for imports.

    importlib.metadata opens each file for the same two words: 0.2 s where 400 packages are installed, and an
    exception where an interrupted uninstallation left an empty folder.
    """
    found: dict[str, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in sorted(os.listdir(folder or ".")):
                named = re.fullmatch(r"([^-]+)-([^-]+)(?:-.+)?\.(?:dist|egg)-info", entry)
                if named is not None:
                    found.setdefault(_normal(named[1]), named[2])
    return found


def _normal(name: str) -> str:
    """As the specification of names of packages has it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_required(name: str, folder: str, among: Iterable[str]) -> list[str]:
    """A distribution of a folder, and what it requires there, and so on. among: others are left out."""
    found, left = [name], {*among} - {name}
    for each in found:
        needed = sorted(left & {*_required(each, folder)})
        left.difference_update(needed)
        found += needed
    return found


def _required(name: str, folder: str) -> Iterator[str]:
    """Extras, which nobody may have asked for, are left out."""
    for requirement in _installed(name, folder).requires or []:
        needed, _, marker = requirement.partition(";")
        if "extra" not in marker and (named := re.match(r"[\w.-]+", needed)):
            yield _normal(named[0])


def places(name: str, folder: str) -> dict[str, str]:
    """What a distribution of a folder has there: its modules, packages and other files, by path below it and in full.

    A folder that is no package, such as a namespace's or one of libraries, may be that of several: its files are there
    one by one. What lies elsewhere, such as programs, is left out.
    """
    found: dict[str, str] = {}
    for each in _installed(name, folder).files or []:
        if ".." not in each.parts and each.parts[0] != "__pycache__" and os.path.exists(os.path.join(folder, each)):
            shown = _package_of(folder, each.parts)
            found[shown] = os.path.join(folder, shown)
    return found


def _package_of(folder: str, parts: tuple[str, ...]) -> str:
    ways = ("/".join(parts[: length + 1]) for length in range(len(parts)))
    return next((each for each in ways if os.path.exists(os.path.join(folder, each, "__init__.py"))), "/".join(parts))


def _installed(name: str, folder: str) -> Distribution:
    from importlib import metadata

    return next(iter(metadata.distributions(name=name, path=[folder])))
