"""What computes, the CPU or a GPU: read from the words that users write and files keep, in this place alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass

KINDS = CPU, CUDA = "cpu", "cuda"
_MOST_DIGITS = 3


@dataclass(frozen=True)
class Device:
    """The CPU or a GPU."""

    kind: str
    """"cpu", or how a GPU is programmed: "cuda"."""
    index: int = 0
    """Which GPU it is of those that a process sees, from 0."""

    @staticmethod
    @functools.lru_cache
    def parse(text: str) -> Device:
        """From "cpu", "cuda:N", or "cuda" for the first GPU. Other words, as in a file, are a kind of their own."""
        kind, _, number = text.partition(":")
        is_number = number.isdecimal() and len(number) <= _MOST_DIGITS and str(int(number)) == number
        return Device(kind, int(number)) if is_number and kind != CPU else Device(text)

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.is_gpu else self.kind

    @property
    def is_gpu(self) -> bool:
        return self.kind != CPU


def nth_gpu(index: int) -> Device:
    """The GPU of this number among those that a process sees."""
    return Device(CUDA, index)


def is_device(text: str) -> bool:
    """Whether these are the words of a device."""
    found = Device.parse(text)
    return found.kind in KINDS and str(found) == text
