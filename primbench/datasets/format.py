"""What the files of a data set are: how they are made, where in them each example is, and how it becomes arrays."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np

    from primbench.dtypes import Array
    from primbench.problem.network import Network


class Extent(NamedTuple):
    """A stretch of a file."""

    path: str
    offset: int
    size_bytes: int


class ExamplePlace(NamedTuple):
    """Where an example is."""

    name: str
    """Its name within the data set."""
    extents: tuple[Extent, ...]
    """Its bytes are those of all of these, in their order."""
    label: int = 0
    """The number of the folder that it is in, which is its class."""


class Made(NamedTuple):
    """An example as it was made up, its name a path."""

    name: str
    content: bytes


class Format(ABC):
    """What files of the examples of one network are like."""

    contents: ClassVar[str]
    """What a folder of them has, in words."""
    endings: ClassVar[tuple[str, ...]] = ("",)
    """What names of files end in that are taken, of a folder as of a shard."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.like = self._split(network.inputs(_rng(), 1))[0]

    @property
    def axes(self) -> Sequence[int]:
        """Along which the examples of a batch lie side by side, input by input; those left out are 0."""
        return ()

    @abstractmethod
    def make(self, count: int) -> Iterator[Made]:
        """Examples, always the same ones."""

    def write(self, folder: str, made: Iterable[Made]) -> None:
        """As files; raises OSError. Here each example is one."""
        for each in made:
            path = os.path.join(folder, each.name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(each.content)

    @abstractmethod
    def find(self, folder: str) -> list[ExamplePlace]:
        """Every example in files there, in the order of names. Raises OSError, ValueError for what cannot be these."""

    def placed(self, found: Sequence[ExamplePlace]) -> list[ExamplePlace]:
        """With what only all of them together tell. Raises ValueError."""
        return list(found)

    @abstractmethod
    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        """An example as the network takes it. Raises whatever a library does where it is none."""

    def drawn(self, count: int) -> list[tuple[Array, ...]]:
        """Examples as the network's own inputs have them."""
        return self._split(self.network.inputs(_rng(), count))

    def _split(self, batch: Sequence[Array]) -> list[tuple[Array, ...]]:
        axes = [*self.axes, *[0] * len(batch)]
        count = batch[0].shape[axes[0]]
        return [
            tuple(each.take(number, axis) for each, axis in zip(batch, axes, strict=False)) for number in range(count)
        ]


def files_ending(folder: str, *endings: str) -> Iterator[str]:
    """Paths of all files below a folder, links followed, in the order of their names. Raises OSError.

    A link to a folder that it lies in leads nowhere new, and is passed over.
    """
    yield from _below(folder, endings, frozenset())


def _below(folder: str, endings: tuple[str, ...], above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """above: device and inode of each folder that this one lies in, links followed."""
    there = os.stat(folder)
    if (itself := (there.st_dev, there.st_ino)) in above:
        return
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if _is_folder(entry):
            yield from _below(entry.path, endings, above | {itself})
        elif entry.name.lower().endswith(endings):
            yield entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself: as a file that is not there, it cannot be read
        return False


def whole(path: str) -> Extent:
    """A file; one that is not there has no bytes, and cannot be read."""
    try:
        return Extent(path, 0, os.path.getsize(path))
    except OSError:
        return Extent(path, 0, 0)


def _rng() -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(0)


def within(value: Any, classes: int | None, what: str) -> Any:
    """The value, an array or number. Raises ValueError where one is none of so many classes or words."""
    import numpy as np

    if classes is not None:
        numbers = np.ravel(value)
        is_one = (numbers >= 0) & (numbers < classes) & (numbers == np.floor(numbers))
        if not is_one.all():
            raise ValueError(f"{what} {numbers[~is_one][0]:.12g} where there are {classes}")
    return value
