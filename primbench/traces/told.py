"""What is told of the steps of a trace: the median one's parts, and in what other ways its time may be shared."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from primbench import stats
from primbench.report.step_bound import bound_by, bounding, of_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.report.step_words import StepPart

_MOST_NAME = 60
_Span = TypeVar("_Span", bound="Sequence[Any]")


class Named(NamedTuple):
    """Kernels of a name, or operators that were not within another one."""

    name: str
    calls: float
    """A step."""
    time_s: float
    """A step, of all of them together."""


@dataclass(frozen=True)
class StepBound:
    """The median one of the steps of a trace, by its length: of an even number the mean of the two in the middle."""

    steps: int
    """How many there are; 1 where the script told the profiler of none."""
    is_whole: bool
    """Whether the trace as a whole is the step."""
    step_s: float
    parts_s: Mapping[StepPart, float]
    """They add up to step_s. The most comes first."""
    largest: Sequence[Named]
    """All kernels, or operators, the longest first."""
    launches: float
    """What a step starts on the GPU."""
    waits: float
    """How often a step waits until the GPU has done what was started."""
    collective_s: float
    """Of collectives in a step, also while kernels ran beside them, on the mean of all."""
    on_gpu: bool
    times_s: Sequence[float]
    """How long each step took."""
    ways: Sequence[Mapping[StepPart, float]]
    """In what other ways step_s may be shared: as in the steps in which what bounds it has the least and the most of
    the 95 % interval of its share, or of all where there are fewer than six.
    """

    @property
    def part(self) -> StepPart | None:
        """What bounds the steps most."""
        return bounding(self.parts_s, on_gpu=self.on_gpu)

    @property
    def bound_by(self) -> list[StepPart]:
        """What bounds the steps, and what else may, the most first."""
        return bound_by(self.parts_s, self.ways, on_gpu=self.on_gpu)


def summed(parts: Iterable[tuple[StepPart, float]]) -> dict[StepPart, float]:
    found: dict[StepPart, float] = defaultdict(float)
    for part, time_s in parts:
        found[part] += time_s
    return found


def middle(several: Sequence[_Span]) -> Sequence[_Span]:
    """That of the median length, of an even number both that are next to it, in their order. several: times, each from
    its begin.
    """
    count = len(several)
    ordered = sorted(range(count), key=lambda number: length_of(several[number]))
    return [several[number] for number in sorted(ordered[max(0, count - 1) // 2 : count // 2 + 1])]


def length_of(span: Sequence[Any]) -> float:
    return float(span[1] - span[0])


def told(
    several: Sequence[Sequence[Any]], ways: Sequence[Sequence[Mapping[StepPart, float]]],
    ran: Iterable[tuple[str, float]], *, is_whole: bool, launches: float = 0.0, waits: float = 0.0,
    collective_s: float, on_gpu: bool,
) -> StepBound:  # fmt: skip
    """ways: to tell each of the steps apart, the usual one first. ran, launches: of the middle ones together."""
    lengths_s = [length_of(each) for each in several]
    inmost = middle(several)
    steps, step_s = len(inmost), sum(map(length_of, inmost)) / len(inmost)
    shared = [parts for each, parts in zip(several, ways[0], strict=True) if each in inmost]
    parts_s = summed((part, time_s / steps) for each in shared for part, time_s in each.items() if time_s > 0)
    first = bounding(parts_s, on_gpu=on_gpu)
    return StepBound(
        len(several), is_whole, step_s, dict(sorted(parts_s.items(), key=lambda pair: -pair[1])),
        _named(ran, steps), launches / steps, waits, collective_s, on_gpu, lengths_s,
        [way for each in ways for way in _ends(each, step_s, first, on_gpu=on_gpu)],
    )  # fmt: skip


def _named(ran: Iterable[tuple[str, float]], steps: int) -> list[Named]:
    """The longest first."""
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, time_s in ran:
        by_name[shown(name)].append(time_s)
    named = [Named(name, len(each) / steps, sum(each) / steps) for name, each in by_name.items()]
    return sorted(named, key=lambda each: -each.time_s)


def _ends(
    several: Sequence[Mapping[StepPart, float]], step_s: float, part: StepPart | None, *, on_gpu: bool
) -> list[dict[StepPart, float]]:
    """A step's time shared as in those at the ends of the interval of a part's share."""
    timed = [each for each in several if sum(each.values()) > 0]
    if part is None or not timed:
        return []
    shares = [of_group(part, each, on_gpu=on_gpu) / sum(each.values()) for each in timed]
    ends = stats.median_interval(shares) or (min(shares), max(shares))
    found = [timed[shares.index(end)] for end in ends]
    return [{name: step_s * time_s / sum(each.values()) for name, time_s in each.items()} for each in found]


@functools.cache
def shown(name: str) -> str:
    """A kernel's name without what its templates are made with, and no longer than a line."""
    kept, depth = [], 0
    for letter in name.removeprefix("void ").replace("(anonymous namespace)::", ""):
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">"
    short = "".join(kept).partition("(")[0].strip() or name
    return short if len(short) <= _MOST_NAME else f"{short[: _MOST_NAME - 3]}..."
