"""A data set on disk as torch's DataLoader takes one: by number, an example or why there is none."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from primbench.datasets import shards
from primbench.datasets.arrays import ArrayFiles
from primbench.datasets.csv import CsvFiles
from primbench.datasets.idx import IdxFiles
from primbench.datasets.images import JpegImages
from primbench.datasets.tokens import TokenFiles
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.problem.examples import Arrays, Csv, Idx, Images, Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.datasets.format import ExamplePlace, Extent, Format
    from primbench.dtypes import Array
    from primbench.problem.network import Network

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_FORMATS: dict[type, type[Format]] = {
    Images: JpegImages, Idx: IdxFiles, Tokens: TokenFiles, Csv: CsvFiles, Arrays: ArrayFiles,
}  # fmt: skip


class Good(NamedTuple):
    """An example that was read."""

    arrays: tuple[Array, ...]
    """What it is, decoded."""
    decode_s: float
    """How long decoding it took, reading aside."""
    read_bytes: int
    """How much of files was read for it."""


class Bad(NamedTuple):
    """What cannot be read or decoded."""

    name: str
    reason: str


class Dataset:
    """is_kept: whether the kernel may keep in memory what was read. axes: as Format's."""

    def __init__(self, form: Format, folder: str, places: Sequence[ExamplePlace], *, is_kept: bool) -> None:
        self.folder, self.places, self.axes = folder, places, form.axes
        self._form, self._is_kept = form, is_kept

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> Good | Bad:
        place = self.places[number]
        try:
            content = b"".join(map(self._read, place.extents))
            begun = time.perf_counter()
            arrays = self._form.decode(content, place.label, number)
        except Exception as error:  # of what is broken, a library raises whatever it met with
            return Bad(place.name if place.name.isprintable() else repr(place.name), _in_words(error))
        return Good(arrays, time.perf_counter() - begun, len(content))

    def paths(self) -> list[str]:
        """Of all files in which there is something."""
        return sorted({extent.path for place in self.places for extent in place.extents if extent.size_bytes})

    def read(self) -> None:
        """Everything once, so that the kernel has what there is room for; what cannot be read is found out later."""
        for place in self.places:
            try:
                for extent in place.extents:
                    self._read(extent)
            except (OSError, ValueError):
                continue

    def _read(self, extent: Extent) -> bytes:
        """Raises OSError, ValueError where the file has become shorter."""
        opened = os.open(extent.path, os.O_RDONLY | os.O_NONBLOCK)  # of a pipe it would wait for who writes
        try:
            content = os.pread(opened, extent.size_bytes, extent.offset)
            if not self._is_kept:  # of a page that is asked for in part, the kernel drops nothing
                first = extent.offset // PAGE_BYTES * PAGE_BYTES
                last = -(-(extent.offset + extent.size_bytes) // PAGE_BYTES) * PAGE_BYTES
                os.posix_fadvise(opened, first, last - first, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(opened)
        if len(content) < extent.size_bytes:
            raise ValueError(f"{len(content)} bytes, not {extent.size_bytes}")
        return content


def format_of(network: Network) -> Format:
    """Raises UnsupportedCase for what is not installed, or a network without examples on disk."""
    if network.on_disk is None:
        raise UnsupportedCase(f"model {network.name} has nothing on disk: data=device and data=host make its data up")
    return _FORMATS[type(network.on_disk)](network)


def write(form: Format, folder: str, count: int, *, as_shards: bool) -> None:
    """So many examples into an empty folder. Raises OSError."""
    if as_shards:
        shards.write(folder, form.make(count))
    else:
        form.write(folder, form.make(count))


def find(form: Format, folder: str, *, as_shards: bool) -> list[ExamplePlace]:
    """All examples in a folder. Raises PrimbenchError where there are none, or it cannot be read."""
    wanted = "tar files of such examples" if as_shards else form.contents
    try:
        found = form.placed(shards.find(folder, form) if as_shards else form.find(folder))
    except OSError as error:
        at = "" if error.filename in (None, folder) else f" ({error.filename})"
        raise PrimbenchError(f"data in {folder}: {error.strerror}{at}: {wanted} are needed in every arm") from None
    except ValueError as error:
        raise PrimbenchError(f"data in {folder}: {error}") from None
    if not found:
        raise PrimbenchError(f"data in {folder}: nothing that model {form.network.name} reads: {wanted} are needed")
    return found


def _in_words(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split()).rstrip(".") or type(error).__name__
