"""Which elements of image, filter and output a convolution joins, whatever their type and order in memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One spatial axis: tap t of the filter joins output o with the image at ``o stride + t dilation - pad``."""

    image: int
    taps: int
    pad: int
    stride: int
    dilation: int

    @property
    def reach(self) -> int:
        """Pixels from the first tap to the last, both counted."""
        return self.dilation * (self.taps - 1) + 1

    @property
    def outputs(self) -> int:
        return (self.image + 2 * self.pad - self.reach) // self.stride + 1

    def joined(self, tap: int) -> tuple[slice, slice]:
        """The outputs that a tap joins with the image and not with its padding, and those pixels of the image."""
        offset = tap * self.dilation - self.pad
        first = max(0, -(offset // self.stride))
        last = min(self.outputs, (self.image - 1 - offset) // self.stride + 1)
        if first >= last:
            return slice(0), slice(0)
        start = first * self.stride + offset
        return slice(first, last), slice(start, (last - 1) * self.stride + offset + 1, self.stride)


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution; fields as those of Conv."""

    direction: str
    n: int
    """Images."""
    c: int
    """Channels of an image."""
    k: int
    """Filters."""
    groups: int
    axes: tuple[Axis, Axis]
    """Down and across the image."""

    @property
    def computed(self) -> tuple[int, int, int, int]:
        """Shape of what the direction computes, n c h w."""
        down, across = self.axes
        return {
            "forward": (self.n, self.k, down.outputs, across.outputs),
            "bwd_data": (self.n, self.c, down.image, across.image),
            "bwd_weights": (self.k, self.c // self.groups, down.taps, across.taps),
        }[self.direction]

    @property
    def terms(self) -> int:
        """Products that are summed into an element, those with the padding included."""
        down, across = self.axes
        taps = down.taps * across.taps
        return {
            "forward": self.c // self.groups * taps,
            "bwd_data": self.k // self.groups * taps,
            "bwd_weights": self.n * down.outputs * across.outputs,
        }[self.direction]
