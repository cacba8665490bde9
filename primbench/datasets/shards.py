"""Shards: tar files in which each example is a member, read in their order."""

from __future__ import annotations

import io
import itertools
import os
import tarfile
from typing import TYPE_CHECKING

from primbench.datasets.format import ExamplePlace, Extent, files_ending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.datasets.format import Format, Made

OF_SHARD = 64  # examples


def write(folder: str, made: Iterable[Made]) -> None:
    """Raises OSError."""
    left = iter(made)
    for number in itertools.count():
        if not (part := list(itertools.islice(left, OF_SHARD))):
            return
        with tarfile.open(os.path.join(folder, f"{number:05}.tar"), "x") as shard:
            for each in part:
                member = tarfile.TarInfo(each.name)
                member.size = len(each.content)
                shard.addfile(member, io.BytesIO(each.content))


def find(folder: str, form: Format) -> list[ExamplePlace]:
    """Every member that can be an example. Raises OSError, ValueError for a file that is no tar file."""
    found = []
    for path in files_ending(folder, ".tar"):
        try:
            with tarfile.open(path, "r:") as shard:
                members = [each for each in shard if each.isreg() and each.name.lower().endswith(form.endings)]
        except tarfile.TarError as error:
            raise ValueError(f"{os.path.relpath(path, folder)}: {error}") from None
        found += [ExamplePlace(each.name, (Extent(path, each.offset_data, each.size),)) for each in members]
    return found
