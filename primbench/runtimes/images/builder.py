"""How a runtime builds an image: its command, and what it calls the image and knows of it."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
"""This Python, on Debian: CUDA's libraries come with the extras, and the driver with the machine."""

DEFAULT_TAG = "primbench"
_WORD = re.compile(r"[^\s-]\S*")


class ImageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """tag: the image's name, for Apptainer its file. base: an image, for Apptainer a folder or file, too."""

    runtime: str
    tag: str = DEFAULT_TAG
    base: str = DEFAULT_BASE
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        for option, text in (("tag", self.tag), ("base", self.base)):
            if not _WORD.fullmatch(text):
                raise InvalidRequest(f"--{option} {text!r}: the name of an image, such as {DEFAULT_BASE}")


class Builder(NamedTuple):
    """command: run in the folder that the image is built from. name: of the image, for an arm, by its tag.

    size_bytes: of the image of that name, or why it is unknown. tag: the usual one. environment: of the command, from
    this process's own.
    """

    command: Callable[[ImageRequest], list[str]]
    name: Callable[[str], str]
    size_bytes: Callable[[str], int | str]
    tag: str = DEFAULT_TAG
    environment: Callable[[Mapping[str, str]], dict[str, str]] = dict


def arguments(request: ImageRequest) -> list[str]:
    """What the recipes in ``containers/`` are told."""
    return [f"--build-arg=BASE={request.base}", f"--build-arg=EXTRAS={','.join(request.extras)}"]
