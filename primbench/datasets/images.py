"""JPEG files, decoded by Pillow, of which a random box is taken as training on ImageNet does."""

from __future__ import annotations

import io
import math
import os
import random
from typing import TYPE_CHECKING, Any

from primbench.datasets.format import ExamplePlace, Format, Made, files_ending, whole
from primbench.errors import UnsupportedCase
from primbench.problem.examples import Images

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from primbench.dtypes import Array

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)  # of a box: as torchvision's RandomResizedCrop
TRIES = 10
CHROMA = 0.35  # of the luminance's contrast
CONTRASTS = (0.4, 1.6)  # of an image, over the average: some photographs have twice as many bytes as others
GREY = 127.0
CLASSES = 200  # of what is made up, or as many as there are


class JpegImages(Format):
    contents = "JPEG files in a folder for each class"
    endings = (".jpg", ".jpeg")

    def __init__(self, network: Any) -> None:
        """Raises UnsupportedCase where Pillow is not installed."""
        super().__init__(network)
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError:
            raise UnsupportedCase("JPEG files are decoded by Pillow: pip install 'primbench[data]'") from None
        self._open, self._bilinear, self._no_image = Image.open, Image.Resampling.BILINEAR, UnidentifiedImageError
        self._side = self.like[0].shape[-1]

    def make(self, count: int) -> Iterator[Made]:
        """Noise of 1/f^slope, each image another part of the same, which has no edges."""
        import numpy as np
        from PIL import Image

        kind = self.network.on_disk
        assert isinstance(kind, Images)
        rng = np.random.default_rng(0)
        pool = [_noise(rng, kind) for _ in range(3)]
        classes = min(CLASSES, self.network.classes or CLASSES)
        for number in range(count):
            contrast = kind.contrast * rng.uniform(*CONTRASTS) * np.array((1, CHROMA, CHROMA))
            channels = [np.roll(each, rng.integers(0, each.shape), (0, 1)) for each in pool]
            pixels = (GREY + contrast * np.stack(channels, 2)).clip(0, 255).astype(np.uint8)
            written = io.BytesIO()
            Image.fromarray(pixels, "YCbCr").save(written, "JPEG", quality=kind.quality)
            yield Made(f"n{number % classes:04}/{number:07}.JPEG", written.getvalue())

    def find(self, folder: str) -> list[ExamplePlace]:
        return [
            ExamplePlace(os.path.relpath(path, folder), (whole(path),)) for path in files_ending(folder, *self.endings)
        ]

    def placed(self, found: Sequence[ExamplePlace]) -> list[ExamplePlace]:
        """A class is the folder that stands first in a name."""
        names = sorted({place.name.rpartition("/")[0].partition("/")[0] for place in found})
        if "" in names:
            raise ValueError("files lie in no folder, and their classes are not known: a folder for each class")
        if self.network.classes is not None and len(names) > self.network.classes:
            raise ValueError(f"{len(names)} folders of classes, {self.network.classes} are the model's")
        labels = {name: number for number, name in enumerate(names)}
        return [place._replace(label=labels[place.name.partition("/")[0]]) for place in found]

    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        """float32[3, side, side] of -1 to 1 and int64: always the same box, turned about or not, of the same number."""
        import numpy as np

        dice, side = random.Random(number), self._side
        try:
            image = self._open(io.BytesIO(content))
        except self._no_image:  # whose words name an object in memory
            raise ValueError("it is no image") from None
        pixels = image.convert("RGB").resize((side, side), self._bilinear, box=_box(dice, *image.size))
        array: Array = np.asarray(pixels).transpose(2, 0, 1)
        if dice.random() < 0.5:
            array = array[:, :, ::-1]
        return np.ascontiguousarray(array, np.float32) / np.float32(127.5) - np.float32(1), np.array(label)


def _noise(rng: np.random.Generator, kind: Images) -> Array:
    """float[height, width] of mean 0 and standard deviation 1, whose amplitudes fall with frequency."""
    import numpy as np

    rows, columns = np.fft.fftfreq(kind.height)[:, None], np.fft.rfftfreq(kind.width)
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((kind.height, kind.width)))
    found: Array = np.fft.irfft2(white / frequency**kind.slope, (kind.height, kind.width))
    found /= found.std()
    return found


def _box(dice: random.Random, width: int, height: int) -> tuple[float, float, float, float]:
    """Left, top, right, bottom; the whole image where no box of the drawn shapes fits."""
    for _ in range(TRIES):
        area = width * height * dice.uniform(*AREA)
        aspect = math.exp(dice.uniform(*map(math.log, ASPECT)))
        across, down = math.sqrt(area * aspect), math.sqrt(area / aspect)
        if across <= width and down <= height:
            left, top = dice.uniform(0, width - across), dice.uniform(0, height - down)
            return left, top, left + across, top + down
    return 0, 0, width, height
