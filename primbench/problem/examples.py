"""What the examples of a network are on disk: which files its original reads, and what becomes of one example there.

Whatever the files, an example becomes the arrays that ``Network.inputs`` has of one, of the same shapes and types.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Images:
    """JPEG files of height x width, in a folder for each class; a box of each, at random, becomes side x side.

    Made up they are noise of 1/f^slope, which at this quality and contrast, the standard deviation of its luminance on
    the average, has as many bytes as photographs.
    """

    height: int
    width: int
    slope: float
    quality: int
    contrast: float


@dataclass(frozen=True)
class Idx:
    """MNIST's format: bytes of all images in one file, and those of their labels in another."""

    mean: float = 0.0
    """Mean of a byte over 255, which is taken off."""
    sd: float = 1.0
    """Standard deviation of that, which is divided by."""


@dataclass(frozen=True)
class Tokens:
    """Numbers of words, two or four bytes each, one text after the other; inputs are a text, and what follows."""

    words: int


@dataclass(frozen=True)
class Csv:
    """A line an example: its numbers as text, between commas."""

    words: int
    """How many words the whole numbers may stand for."""
    axes: tuple[int, ...] = ()
    """Axes along which the examples of a batch lie side by side in each of the inputs; all others are 0."""


@dataclass(frozen=True)
class Arrays:
    """A .npz file an example, its numbers with a fraction as float64."""


Examples = Images | Idx | Tokens | Csv | Arrays

TINY_IMAGENET = Images(height=64, width=64, slope=1.4, quality=75, contrast=59)
"""Files of 2.0 kB, as tiny-imagenet's are."""
IMAGENET = Images(height=375, width=500, slope=1.0, quality=90, contrast=45)
"""Files of 115 kB, as ImageNet's are."""
