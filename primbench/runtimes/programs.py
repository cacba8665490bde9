"""What arms can have run that is not here already: a study's file names it, and it may be somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from primbench.errors import InvalidRequest
from primbench.spec.arm import HOST_IMAGE, Arm, format_arm, settings_of, words_of
from primbench.spec.confidential import hidden
from primbench.spec.placement import THREAD_VARIABLES
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def chooses(arm: Arm) -> bool:
    """Whether it has other programs run than those that are here, or elsewhere, or changes which ones are."""
    counts = [name in THREAD_VARIABLES and value.isdecimal() for name, value in arm.variables.items()]
    rows = (SETTINGS[field] for field in settings_of(arm))
    files = (row.programs is not None and row.programs(getattr(arm, row.field)) for row in rows)
    return arm.image not in (None, HOST_IMAGE) or any((arm.passed, arm.is_far, *files)) or not all(counts)


def in_full(arm: Arm) -> str:
    """All that it is, as one writes it on the command line; as JSON where no command line can say it."""
    try:
        return hidden(format_arm(arm))
    except InvalidRequest:
        return hidden(msgspec.json.encode(arm).decode())


def told(arms: Iterable[Arm]) -> Iterator[str]:
    """A line for each that chooses programs, and whose name does not say which."""
    for arm in arms:
        if chooses(arm) and not _says(arm):
            yield f"{arm.name} has this run: {in_full(arm)}"


def _says(arm: Arm) -> bool:
    try:
        return words_of(arm).removeprefix("host:") in arm.name
    except InvalidRequest:
        return False
