"""What two arms differ in that no setting moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.spec.arm import is_folder
from primbench.spec.settings import SETTINGS
from primbench.spec.settings.machines import CASE
from primbench.spec.settings.variables import ENV

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.spec.arm import Arm
    from primbench.spec.setting import Setting


def apart(one: Arm, other: Arm) -> Iterator[tuple[str, str, str]]:
    """What no setting moves: that the runtimes, the machines or the images are others, unless these are folders here,
    the files of which can be moved. What it is, and that of each.
    """
    if one.runtime != other.runtime:
        yield "the runtimes are", one.runtime, other.runtime
    if one.case != other.case:
        yield "what is measured is", CASE.shown(one.case) or "as asked", CASE.shown(other.case) or "as asked"
    for field, row in SETTINGS.items():
        here, there = getattr(one, field), getattr(other, field)
        if here != there and _is_fixed(row, here, there):
            yield f"{row.key} is", str(here), str(there)


def _is_fixed(row: Setting, here: Any, there: Any) -> bool:
    """Whether nothing moves a setting from one value to another."""
    are_images = row.cost == "image" and not (is_folder(here) and is_folder(there))
    return row is not ENV and (row.is_place or are_images)
