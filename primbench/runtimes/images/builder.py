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
    """Which image is to be built."""

    runtime: str
    """Which runtime builds it."""
    tag: str = DEFAULT_TAG
    """The image's name; for Apptainer its file."""
    base: str = DEFAULT_BASE
    """The image that it is built on; for Apptainer a folder or a file, too."""
    extras: tuple[str, ...] = ()
    """What else to install, such as torch."""

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        for option, text in (("tag", self.tag), ("base", self.base)):
            if not _WORD.fullmatch(text):
                raise InvalidRequest(f"--{option} {text!r}: the name of an image, such as {DEFAULT_BASE}")


class Builder(NamedTuple):
    """How a runtime builds images."""

    command: Callable[[ImageRequest], list[str]]
    """Makes the command, which is run in the folder that the image is built from."""
    name: Callable[[str], str]
    """Makes the image's name in an arm of its tag."""
    size_bytes: Callable[[str], int | str]
    """Of the image of such a name: its size, or why that is not known."""
    tag: str = DEFAULT_TAG
    """The tag where none is given."""
    environment: Callable[[Mapping[str, str]], dict[str, str]] = dict
    """Makes the variables of the command of this process's own."""


def arguments(request: ImageRequest) -> list[str]:
    """What the recipes in ``containers/`` are told."""
    return [f"--build-arg=BASE={request.base}", f"--build-arg=EXTRAS={','.join(request.extras)}"]
