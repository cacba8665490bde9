"""What examples are made of that a network can learn: a few patterns, and noise over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from primbench.dtypes import Array

PATTERNS = 5  # seed of the patterns, which are the same wherever and for however many examples they are drawn
FIELDS = 4  # of an image's side
NOISE = 0.25
LEARNING_BATCH = 16  # examples of a step, where a network says nothing else
LEARNING_STEPS = 100  # of a training, likewise


def coarse(arrays: Array) -> Array:
    """Images [images, channels, side, side] as 4 x 4 fields of one colour each, which a pool does not average away.

    Others as they are.
    """
    import numpy as np

    if arrays.ndim != 4 or arrays.dtype.kind != "f":
        return arrays
    side = arrays.shape[-1]
    field = np.arange(side) * FIELDS // side
    found: Array = arrays[:, :, field][:, :, :, field]
    return found


def mixed(rng: np.random.Generator, pattern: Array, noise: Array) -> Array:
    """The pattern, of which a quarter of the elements is of the noise: in the range, and of the type, of both."""
    import numpy as np

    return np.where(rng.random(pattern.shape, np.float32) < NOISE, noise, pattern)
