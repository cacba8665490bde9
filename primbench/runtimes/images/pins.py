"""The versions that an image is to have: those of this installation."""

from __future__ import annotations

import importlib.metadata
import re
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_RELEASED = re.compile(r"[0-9]+(\.[0-9]+)*(\.post[0-9]+)?")


def constraints(extras: Iterable[str] = ()) -> list[str]:
    """``name==version`` of what primbench with these extras needs and has here, and what that needs.

    Nothing else that is installed here: pip would fail over versions that the image's libraries cannot have, or take
    an old release that can have them. Without local labels such as +cpu, which only some indexes have, and without
    what never was released.
    """
    public = {name: (version or "").partition("+")[0] for name, version in _needed(extras).items()}
    return [f"{name}=={version}" for name, version in public.items() if _RELEASED.fullmatch(version)]


def unpinned(extras: Iterable[str] = ()) -> list[str]:
    """What an image may get in another build than is here, each with what is here."""
    needed = _needed(extras)
    other = {name: version for name, version in needed.items() if version is None or not _RELEASED.fullmatch(version)}
    return [f"{name} ({'not installed' if version is None else version} here)" for name, version in other.items()]


def _needed(extras: Iterable[str]) -> dict[str, str | None]:
    """Package -> installed version, for all that primbench with these extras needs; None where not installed."""
    todo, seen = [("primbench", extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while todo:
        name, extra = todo.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            todo += _asked_by(name, extra)
    found = {name: _distribution(name) for name in sorted({name for name, _ in seen} - {"primbench"})}
    return {name: None if each is None else each.version for name, each in found.items()}


def _asked_by(name: str, extra: str) -> list[tuple[str, str]]:
    """What a distribution needs here for an extra, "" being the distribution itself: names and their extras."""
    distribution = _distribution(name)
    asked = [Requirement(line) for line in (distribution.requires if distribution else None) or []]
    wanted = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": extra})]
    return [(canonicalize_name(each.name), of_it) for each in wanted for of_it in ("", *each.extras)]


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    """The first on the path that has a version: an interrupted uninstallation leaves an empty folder."""
    found = importlib.metadata.distributions(name=name)
    return next((each for each in found if "Version" in each.metadata), None)
