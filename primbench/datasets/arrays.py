"""NumPy's files of arrays, one an example."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from primbench.datasets.format import ExamplePlace, Format, Made, files_ending, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.dtypes import Array


class ArrayFiles(Format):
    contents = "files NAME.npz, one an example"
    endings = (".npz",)

    def make(self, count: int) -> Iterator[Made]:
        import numpy as np

        for number, arrays in enumerate(self.drawn(count)):
            written = io.BytesIO()
            np.savez(written, *(each.astype(_stored(each)) for each in arrays))
            yield Made(f"{number:07}.npz", written.getvalue())

    def find(self, folder: str) -> list[ExamplePlace]:
        return [
            ExamplePlace(os.path.relpath(path, folder), (whole(path),)) for path in files_ending(folder, *self.endings)
        ]

    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        import numpy as np

        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = [stored[name] for name in stored.files]
        if (shapes := [each.shape for each in arrays]) != (wanted := [each.shape for each in self.like]):
            raise ValueError(f"arrays of shapes {shapes}, not {wanted}")
        return tuple(array.astype(each.dtype) for array, each in zip(arrays, self.like, strict=True))


def _stored(array: Array) -> str:
    return "float64" if array.dtype.kind == "f" else "int64"
