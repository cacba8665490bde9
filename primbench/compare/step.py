"""A step that was taken apart, in two places: by how much it is longer in one, and which of its parts are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench import stats
from primbench.compare.ratio import FALSE_DISCOVERIES
from primbench.measurement import Samples
from primbench.results.cpu_speed import not_held_up
from primbench.results.step_explained import NOT_MEASURED, UNEXPLAINED, Explained
from primbench.results.step_parts import part_of
from primbench.results.step_sums import explained
from primbench.spec.captured import PARTS, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.sides import Side
    from primbench.results.record import Record

Interval = tuple[float, float] | None
Pair = tuple[Explained, Explained]


class PartChange(msgspec.Struct, frozen=True, kw_only=True):
    """By how many seconds a part of a step is longer in the arm, the mean over pairs."""

    name: str
    seconds: float
    interval: Interval
    """95 % interval of that; None for one pair."""
    q: float | None
    """The least rate of false discoveries at which it is one, among the parts of all arms, or among their steps as
    wholes.
    """
    calls: int = 0
    """How many calls it is of."""
    each_s: float | None = None
    """The mean by which one is longer; None where that says nothing."""

    @property
    def differs(self) -> bool:
        """Whether it is longer, or shorter, for certain, among all that are looked at."""
        return self.q is not None and self.q <= FALSE_DISCOVERIES


class StepComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A captured step in two places, part by part."""

    pairs: int
    baseline_s: float
    """Time of the step on the baseline, the mean over pairs."""
    arm_s: float
    """Time of the step in the arm, the mean over pairs."""
    whole: PartChange
    """By how much the step as a whole is longer."""
    changes: list[PartChange]
    """Changes of its parts, which add up to that of the whole, the largest first, what is unexplained last."""
    explained_s: float
    """By how much all measured parts together are longer, in seconds."""
    unmeasured: int = 0
    """Calls of a step that are in none of them, since they were not measured in both places: what they take is
    unexplained.
    """
    is_whole: bool = True
    """Whether the step was measured in both places; else all of it is what its parts come to, and nothing is known to
    be unexplained.
    """

    @property
    def differs(self) -> bool:
        return self.whole.differs

    @property
    def is_explained(self) -> bool:
        """Whether what the parts explain lies in the interval of the whole."""
        low, high = self.whole.interval or (-math.inf, math.inf)
        return low <= self.explained_s <= high


def compare_steps(baseline: Side, sides: Sequence[tuple[Side, bool]]) -> list[StepComparison | None]:
    """As ``compare_step``, of each side, and whether ``alone``; what is certain holds for all of them together."""
    found = [compare_step(baseline, side, alone=alone) for side, alone in sides]
    wholes = _adjusted([step.whole for step in found if step])
    parts = _adjusted([change for step in found if step for change in step.changes])
    return [
        step and replace(step, whole=next(wholes), changes=[next(parts) for _ in step.changes]) for step in found
    ]  # fmt: skip


def _adjusted(changes: Sequence[PartChange]) -> Iterator[PartChange]:
    """With the q that each has among them, in place of its own p."""
    qs = stats.benjamini_hochberg([each.q for each in changes])
    return (replace(each, q=q) for each, q in zip(changes, qs, strict=True))


def compare_step(baseline: Side, side: Side, *, alone: bool = False) -> StepComparison | None:
    """Pair by pair; None where no pair has the step's parts in both places. q is each part's own p.

    alone: of the step by samples while which no thread waited for a CPU, as the verdict on it is.
    A part that one place alone measured is in neither: what it takes stays unexplained in both.
    """
    pairs = _pairs(baseline, side, alone=alone)
    if not pairs:
        return None
    calls = _calls([*baseline.records, *side.records])
    return _compared(pairs, calls - min(_measured(each) for pair in pairs for each in pair))


def _compared(pairs: Sequence[Pair], unmeasured: int) -> StepComparison:
    changes = sorted((_change(name, pairs) for name in _parts(pairs)), key=lambda change: -abs(change.seconds))
    is_whole = all(map(_are_whole, pairs))
    steps = [[each.known_s for each in places] for places in zip(*pairs, strict=True)]
    longer = [other - one for one, other in zip(*steps, strict=True)]
    return StepComparison(
        pairs=len(pairs),
        baseline_s=_mean(steps[0]),
        arm_s=_mean(steps[1]),
        whole=_longer("step", longer),
        changes=[*changes, _unexplained(pairs)] if is_whole else changes,
        explained_s=math.fsum(change.seconds for change in changes),
        unmeasured=unmeasured,
        is_whole=is_whole,
    )


def _parts(pairs: Sequence[Pair]) -> list[str]:
    """Names of what explains steps, each once."""
    rows = dict.fromkeys(row.name for pair in pairs for each in pair for row in each.rows)
    return [name for name in rows if name not in (NOT_MEASURED, UNEXPLAINED)]


def _calls(records: Sequence[Record]) -> int:
    """Of a step, whatever became of them."""
    labels = {part_of(each): each.case.labels for each in records if each.case.labels.get("set") == PARTS}
    return sum(int(each.get("count", "1")) for each in labels.values())


def _measured(each: Explained) -> int:
    return each.calls - sum(each.unmeasured.values())


def _pairs(baseline: Side, side: Side, *, alone: bool) -> list[Pair]:
    sides = [_by_process(each, alone=alone) for each in (baseline, side)]
    both = sorted(sides[0].keys() & sides[1].keys())
    pairs = [_explained(sides[0][process], sides[1][process]) for process in both]
    known = [(one, other) for one, other in pairs if one and other and one.known_s and other.known_s]
    return list(filter(_are_whole, known)) or known


def _are_whole(pair: Pair) -> bool:
    return all(each.step_s for each in pair)


def _by_process(side: Side, *, alone: bool) -> dict[int, list[Record]]:
    """What was measured."""
    found: dict[int, list[Record]] = {}
    for record in side.records:
        kept = _alone(record) if alone and record.case.labels.get("set") == WHOLE else record
        if record.status == "ok":
            found.setdefault(record.case.process, []).append(kept)
    return found


def _alone(record: Record) -> Record:
    """Of its samples those while which no thread waited; a pair in which a step has none is left out.

    What a GPU's own clock timed is kept whole: no waits are counted beside it.
    """
    measurement = record.measurement
    if measurement is None:
        return record
    every = {name: getattr(measurement, name) for name in measurement.__struct_fields__}
    sampled = {name: found for name, found in every.items() if isinstance(found, Samples)}
    are_counted = any(found.queued_s for found in sampled.values())
    kept = {name: found if are_counted and not found.queued_s else _of_quiet(found) for name, found in sampled.items()}
    return replace(record, measurement=replace(measurement, **kept))


def _of_quiet(samples: Samples) -> Samples | None:
    quiet = [each for each in not_held_up(samples) if not math.isnan(each)]
    return replace(samples, samples_s=quiet, loops_s=[], queued_s=[]) if quiet else None


def _explained(one: Sequence[Record], other: Sequence[Record]) -> tuple[Explained | None, Explained | None]:
    """Of the parts that both have."""
    shared = {*map(part_of, one)} & {*map(part_of, other)}
    here, there = (explained(each for each in records if part_of(each) in shared) for records in (one, other))
    return here, there


def _unexplained(pairs: Sequence[Pair]) -> PartChange:
    """With what was not measured."""
    longer = [(other.rest_s or 0.0) - (one.rest_s or 0.0) for one, other in pairs]
    return _longer(UNEXPLAINED, longer)


def _change(name: str, pairs: Sequence[Pair]) -> PartChange:
    longer = [other.seconds(name) - one.seconds(name) for one, other in pairs]
    calls = next((row.calls for row in pairs[0][1].rows if row.name == name), 0)
    return _longer(name, longer, calls)


def _longer(name: str, longer_s: Sequence[float], calls: int = 0) -> PartChange:
    """longer_s: pair by pair."""
    return PartChange(
        name=name,
        seconds=_mean(longer_s),
        interval=stats.mean_interval(longer_s),
        q=stats.mean_p(longer_s),
        calls=calls,
        each_s=_mean(longer_s) / calls if calls else None,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
