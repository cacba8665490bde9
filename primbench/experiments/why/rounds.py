"""What is measured next, and what came of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Subset = frozenset[int]
"""The differences, by number, that are in a place as in SLOW; all others are as in FAST. Empty: FAST. All: SLOW."""

Purpose = Literal["effect", "search", "certificate", "repeat"]


class RatioInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio of times, 1 for equally fast, with what it may be."""

    ratio: float
    """The best guess."""
    low: float
    """Below it only by chance; 0 where nothing is known."""
    high: float | None
    """Above it only by chance; None where nothing is known."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs to measure next: each pair has one fresh process of each design, all of them in turn."""

    number: int
    """From 0, one more each time."""
    stage: Purpose
    """What the pairs are for."""
    designs: tuple[Subset, ...]
    """In the order of the first pair; each pair is the mirror of the one before."""
    pairs: tuple[int, ...]
    """Numbers of pairs, none of which was used before; the first is even."""
    testing: Subset | None = None
    """The set of differences that a certificate, or its repetition, is about."""
    base: Subset = frozenset()
    """What has been proven before, and is in every design."""
    after_pause: bool = False
    """Whether to wait first, so that a cause which passes is gone."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What one process came to."""

    pair: int
    """One of those of the round."""
    design: Subset
    """One of those of the round."""
    value_s: float | None
    """The metric in question, above 0 seconds; None where there is none."""
    failure: str | None = None
    """Why there is none, in words."""
