"""NVLinks between GPUs in the picture of a place: bars below the GPUs, which reach up to those that they link."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from primbench.report.svg import add_line, add_text
from primbench.report.topology import link_between

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from primbench.numa.topology import GpuPlace

# Lengths are in pixels.
DEPTH, PORT = 20, 12  # of bars one below the other, and between their ends on one GPU
NVLINK = "#3f7d20"


@dataclass(frozen=True)
class Bar:
    """NVLinks: one line of ``label`` at ``depth`` below the GPUs, that reaches up to each of ``xs``."""

    label: str
    xs: list[int]
    depth: int


class Linked(NamedTuple):
    """Two GPUs with NVLinks between them."""

    distance: int
    """How many columns they are apart."""
    label: str
    """How many NVLinks there are, in words."""
    xs: tuple[int, int]
    """Left edges of their columns."""


def bars_of(gpus: list[tuple[GpuPlace, int]], width: int) -> list[Bar]:
    """One bar where all are linked alike, else one for each pair, short ones nearer to the GPUs.

    gpus: each with the left edge of its column, which is so wide.
    """
    pairs = [
        Linked(abs(x - y), f"{lanes} NVLink{'s' * (lanes > 1)}", (x, y))
        for (gpu, x), (peer, y) in itertools.combinations(gpus, 2)
        if (lanes := _nvlinks(gpu, peer))
    ]
    labels = {pair.label for pair in pairs}
    if len(gpus) > 2 and len(labels) == 1 and len(pairs) == math.comb(len(gpus), 2):
        return [Bar(f"{labels.pop()} between any two", [x + width // 2 for _, x in gpus], 0)]
    return _of_pairs(sorted(pairs), width)


def _nvlinks(gpu: GpuPlace, peer: GpuPlace) -> int:
    """The number of NVLinks between two GPUs, as the first of them tells, else the other; 0 where there are none."""
    link = link_between(gpu, peer) or link_between(peer, gpu)
    return (link.lanes or 0) if link else 0


def _of_pairs(pairs: Sequence[Linked], width: int) -> list[Bar]:
    """A bar for each pair, at the least depth where it crosses none before it; ends on one GPU lie side by side."""
    ends = Counter(x for pair in pairs for x in pair.xs)
    used: Counter[int] = Counter()
    bars: list[Bar] = []
    for pair in pairs:
        xs = [x + width // 2 + PORT * (2 * used[x] - ends[x] + 1) // 2 for x in pair.xs]
        used.update(pair.xs)
        taken = {bar.depth for bar in bars if min(xs) <= max(bar.xs) and min(bar.xs) <= max(xs)}
        bars.append(Bar(pair.label, xs, next(depth for depth in itertools.count() if depth not in taken)))
    return bars


def draw(svg: Element, bars: list[Bar], top: int) -> None:
    for bar in bars:
        y = top + (bar.depth + 1) * DEPTH
        path = f"M{min(bar.xs)} {y} H{max(bar.xs)}" + "".join(f" M{x} {top} V{y + 1}" for x in bar.xs)
        add_line(svg, path, NVLINK, width=2)
    for bar in bars:  # after all lines, so that none runs through a label
        middle, y = (min(bar.xs) + max(bar.xs)) // 2, top + (bar.depth + 1) * DEPTH
        add_text(svg, middle, y - 5, bar.label, colour=NVLINK, anchor="middle", halo=True)
