"""The files of MNIST: bytes of all images one after the other behind a header, and so their labels."""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING

from primbench.datasets.format import ExamplePlace, Extent, Format, Made, within
from primbench.problem.examples import Idx

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from primbench.dtypes import Array

_UNSIGNED_BYTES = 8
_NAME = "train-{}-idx{}-ubyte"
_MOST_AXES = 8
_GZIP, _PACKED = b"\x1f\x8b", ": unpack it with gunzip"


class IdxFiles(Format):
    contents = "train-images-idxN-ubyte and train-labels-idx1-ubyte, unpacked"

    @property
    def _image_bytes(self) -> int:
        return self.like[0].size

    @property
    def _has_labels(self) -> bool:
        return len(self.like) > 1

    def make(self, count: int) -> Iterator[Made]:
        """Bytes of an image, and of a label where the network is given one."""
        import numpy as np

        rng = np.random.default_rng(0)
        for number in range(count):
            label = rng.integers(0, self.network.classes or 1, int(self._has_labels), np.uint8)
            yield Made(f"{number:07}", rng.bytes(self._image_bytes) + label.tobytes())

    def write(self, folder: str, made: Iterable[Made]) -> None:
        contents = [each.content for each in made]
        images = [each[: self._image_bytes] for each in contents]
        _write(folder, "images", [size for size in self.like[0].shape if size > 1], images)
        if self._has_labels:
            _write(folder, "labels", [], [each[self._image_bytes :] for each in contents])

    def find(self, folder: str) -> list[ExamplePlace]:
        """Raises ValueError where a file is of another format, or there are labels for other images."""
        names = os.listdir(folder)
        files = [_found(folder, names, "images", self._image_bytes)]
        if self._has_labels:
            files.append(_found(folder, names, "labels", 1))
        if len({len(extents) for extents in files}) > 1:
            raise ValueError(f"{len(files[0])} images, {len(files[1])} labels: {self.contents} of the same examples")
        return [ExamplePlace(f"image {number}", extents) for number, extents in enumerate(zip(*files, strict=True))]

    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        import numpy as np

        kind, image = self.network.on_disk, self.like[0]
        assert isinstance(kind, Idx)
        found = np.frombuffer(content, np.uint8)
        pixels = found[: image.size].reshape(image.shape) * np.float32(1 / 255)
        standardised = (pixels - np.float32(kind.mean)) * np.float32(1 / kind.sd)
        if not self._has_labels:
            return (standardised,)
        return standardised, within(found[image.size].astype(self.like[1].dtype), self.network.classes, "label")


def _write(folder: str, what: str, shape: Sequence[int], contents: Sequence[bytes]) -> None:
    sizes = [len(contents), *shape]
    with open(os.path.join(folder, _NAME.format(what, len(sizes))), "xb") as file:
        file.write(struct.pack(f">HBB{len(sizes)}I", 0, _UNSIGNED_BYTES, len(sizes), *sizes))
        file.writelines(contents)


def _found(folder: str, names: Sequence[str], what: str, item_bytes: int) -> list[Extent]:
    """Where each item is; none where there is no such file."""
    wanted = {_NAME.format(what, axes) for axes in range(1, _MOST_AXES)}
    for name in sorted(wanted.intersection(names)):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            head = file.read(4 + 4 * _MOST_AXES)
        axes = head[3] if len(head) > 3 else 0
        offset, size_bytes = 4 + 4 * axes, os.path.getsize(path)
        if head[:3] != bytes((0, 0, _UNSIGNED_BYTES)) or not axes or len(head) < offset:
            raise ValueError(f"{name} does not begin as IDX files of bytes do{_PACKED * head.startswith(_GZIP)}")
        sizes = struct.unpack_from(f">{axes}I", head, 4)
        if size_bytes - offset < (told := math.prod(sizes)):
            raise ValueError(f"{name} is cut off: {size_bytes - offset} of the {told} bytes that its head tells of")
        count, each_bytes = sizes[0], math.prod(sizes[1:])
        if each_bytes != item_bytes:
            raise ValueError(f"{name} has {each_bytes} bytes for each of {count} {what}, the model takes {item_bytes}")
        return [Extent(path, offset + number * item_bytes, item_bytes) for number in range(count)]
    return []
