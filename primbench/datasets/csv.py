"""Files of text, a line an example, whose numbers stand between commas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.datasets.format import ExamplePlace, Extent, Format, Made, files_ending, within
from primbench.problem.examples import Csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.dtypes import Array

_NAME = "examples.csv"
_SHOWN = 40  # bytes of what is no number


class CsvFiles(Format):
    contents = "files NAME.csv, a line an example"

    @property
    def _kind(self) -> Csv:
        kind = self.network.on_disk
        assert isinstance(kind, Csv)
        return kind

    @property
    def axes(self) -> Sequence[int]:
        return self._kind.axes

    def make(self, count: int) -> Iterator[Made]:
        for number, arrays in enumerate(self.drawn(count)):
            values = (f"{value:g}" for array in arrays for value in array.reshape(-1).tolist())
            yield Made(f"{number:07}", f"{','.join(values)}\n".encode())

    def write(self, folder: str, made: Iterable[Made]) -> None:
        with open(os.path.join(folder, _NAME), "xb") as file:
            file.writelines(each.content for each in made)

    def find(self, folder: str) -> list[ExamplePlace]:
        found = []
        for path in files_ending(folder, ".csv"):
            offset, name = 0, os.path.relpath(path, folder)
            with open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    found.append(ExamplePlace(f"{name}, line {number}", (Extent(path, offset, len(line)),)))
                    offset += len(line)
        return found

    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        import numpy as np

        texts = content.split(b",") if content.strip() else []
        if len(texts) != (expected := sum(each.size for each in self.like)):
            raise ValueError(f"{len(texts)} numbers, not {expected}")
        values = np.array(list(map(_number, texts)))
        found, first = [], 0
        for each in self.like:
            part = values[first : first + each.size].reshape(each.shape)
            if each.dtype.kind == "i":
                within(part, self._kind.words, "word")
            found.append(part.astype(each.dtype))
            first += each.size
        if found[-1].dtype.kind == "f":  # as binary cross-entropy takes a class
            within(found[-1], self.network.classes, "label")
        return tuple(found)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        shown = repr(text.strip()[:_SHOWN]).removeprefix("b")
        raise ValueError(f"{shown} is no number") from None
