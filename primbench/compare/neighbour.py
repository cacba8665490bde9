"""What a neighbour that an arm has does to a case: it is asked for, and the first cause of what moved.

What of a step that copies its data first takes longer is told by the same step on data that are there already, where a
study has both: what the one takes more than the other is the copies, and of the other what its kernels do not take is
waiting for launches. The parts add up to the step.
"""

from __future__ import annotations

import math
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

from primbench import stats
from primbench.compare.evidence import share
from primbench.compare.sides import identity
from primbench.doctor.cause import Suspect, listed
from primbench.results.disturbances import WAITED_FRACTION
from primbench.results.metrics import METRICS
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.evidence import Seen
    from primbench.compare.numbers import MetricValues
    from primbench.compare.ratio import Estimate
    from primbench.compare.sides import Side
    from primbench.spec.case import Case
    from primbench.spec.neighbour import Neighbour

OF_DIRECTIONS = {"h2d": "copies to the GPU", "d2h": "copies from the GPU"}
COPIES, KERNELS, LAUNCHES = "copies to the GPU", "kernels", "launches"
OF_WORK = {"copy": "copies", "kernel": "kernels", "launch": "launches", "collective": "collectives"}
NOTABLE = 1.05  # a part that takes no longer than this is not the one that a neighbour slows
NOTABLE_SHARE = 0.25  # of what a step takes longer: a part that is less of it is not named beside a larger one
ENOUGH = 0.5  # of what the case takes longer: a part that takes so little longer by itself cannot be what slows it


def neighbour_of(side: Side) -> Neighbour | None:
    return side.arm.neighbour if side.arm else None


def own_neighbour(baseline: Side, side: Side) -> Neighbour | None:
    """The neighbour of the arm, which the baseline has not."""
    found = neighbour_of(side)
    return None if found == neighbour_of(baseline) else found


def neighbours(beside: Beside) -> Iterator[Suspect]:
    """One of the arm, with what the primitives of the study take beside it; one that only the baseline has."""
    case, baseline, side = beside.case, beside.baseline, beside.side
    found, left = own_neighbour(baseline, side), own_neighbour(side, baseline)
    if found is not None:
        ratios = _of_parts(beside.arm, case.case)
        words = ", ".join(f"{part} {ratio:.2f}" for part, ratio in ratios.items())
        slowed = _slowed(case, ratios, _growths(case.case, baseline, side), beside.seen)
        yield Suspect(
            f"the neighbour {found.words}" + (f": beside it {words} times as long" if words else ""),
            title=f"the neighbour {found.name}" + (f" ({slowed})" if slowed else ""),
            stops=True,
        )
    elif left is not None:
        yield Suspect(f"the neighbour of {baseline.name}, {left.words}, which {side.name} has not", stops=True)


def noise_beside(noise: list[str], baseline: Side, side: Side) -> list[str]:
    """What others on the machine may have done; nothing where the neighbour of one place is among them."""
    return noise if neighbour_of(baseline) == neighbour_of(side) else []


def evidence_beside(case: CaseComparison, baseline: Side, side: Side, seen: Seen) -> Iterator[str]:
    """What the case's own metrics and the kernel's counters say of the neighbour, where the arm alone has it."""
    neighbour = own_neighbour(baseline, side)
    if neighbour is None:
        return
    medians = [f"{METRICS[each.metric].heading} {each.ratio:.2f}" for each in case.estimates if _is_told(each)]
    if medians:
        yield f"beside {neighbour.name} {', '.join(medians)} times as long"
    if grown := _growths(case.case, baseline, side):
        yield _in_words(grown)
    if _waits_longer(seen) and (shares := _waited(seen)):
        alone, beside = map(format_percent, shares)
        yield f"a thread of it waited for a CPU for {beside} of the time, {alone} without the neighbour"


def notes_beside(sides: Sequence[Side]) -> Iterator[str]:
    """What ran beside each arm that has a neighbour, and how often."""
    for side in sides:
        if (neighbour := neighbour_of(side)) is None:
            continue
        readings = [each.measurement.neighbour for each in side.records if each.measurement]
        rates = [each.calls / each.duration_s for each in readings if each and each.duration_s]
        if rates:
            yield (
                f"{side.name}: {neighbour.words} called {stats.quantile(rates, 0.5):.3g} times a second, median over "
                "cases; arms with a neighbour and arms without follow one another, as it would slow both"
            )


def _is_told(found: Estimate) -> bool:
    """Medians of what is a part of the case, and the means by which it is judged."""
    return METRICS[found.metric].is_median or found.judges


def _of_parts(arm: ArmComparison, case: Case) -> dict[str, float]:
    """Part -> how many times as long the study's primitives of it take, of the same device; models have several."""
    found: dict[str, list[float]] = {}
    for each in arm.cases:
        part, judged = _part(each.case), each.deciding or each.primary
        if part is not None and judged is not None and each.case.device == case.device:
            # A call that waits for the GPU has the neighbour's kernels in it, and what launches it has not.
            launching = _ratios(each, "launch") if part == OF_WORK["launch"] else []
            found.setdefault(part, []).append(launching[0] if launching else judged.ratio)
    return {part: geometric_mean(ratios) for part, ratios in found.items()}


def _part(case: Case) -> str | None:
    """The one part of a step that a primitive is; None of a whole step, whose bytes nobody can count."""
    problem = case.known_problem()
    if problem is None or (problem.work == "kernel" and problem.bytes_moved() is None):
        return None
    return OF_DIRECTIONS.get(str(case.parameters.get("direction"))) or OF_WORK.get(problem.work)


def _slowed(case: CaseComparison, ratios: dict[str, float], grown: Sequence[Growth], seen: Seen) -> str | None:
    """In few words the part of the case that the neighbour slows, or several; None where that is not certain.

    Best by what the parts of this very step take more, which may be several at once. By primitives of the study there
    may be several of which any can be it, since how much of the step each is they do not tell.
    """
    if _waits_longer(seen):
        return "waiting for a CPU"
    if _waits_for_gpu(case):
        return "waiting for the GPU"
    if grown:
        return listed(_named(grown)) or None
    if ratios:
        return " or ".join(_able(case, ratios, _part(case.case))) or None
    return _by_its_metrics(case)


def _by_its_metrics(case: CaseComparison) -> str | None:
    own = OF_WORK.get(problem.work) if (problem := case.case.known_problem()) else None
    parts = {"launch": "launches", "clock": own or "kernels"}
    by_kind = {METRICS[each.metric].explains: each.ratio for each in case.estimates}
    known = {part: by_kind[kind] for kind, part in parts.items() if kind in by_kind}
    most = max(known, key=lambda part: known[part], default=None)
    return most if most is not None and known[most] > NOTABLE else None


def _able(case: CaseComparison, ratios: dict[str, float], own: str | None) -> list[str]:
    """The parts that take enough longer by themselves to slow the case so, the slowest first. own: all that it is."""
    found = case.deciding or case.primary
    least = max(NOTABLE, 1 + ENOUGH * (found.ratio - 1)) if found else NOTABLE
    able = [part for part, ratio in ratios.items() if ratio > least and own in (None, part)]
    return sorted(able, key=lambda part: -ratios[part])


def _waits_for_gpu(case: CaseComparison) -> bool:
    """An empty kernel comes back later, and neither its launch nor itself takes nearly as much longer."""
    calls, own = _ratios(case, "call"), _ratios(case, "launch", "clock")
    if not (calls and own) or _part(case.case) != OF_WORK["launch"]:
        return False
    return max(calls) > NOTABLE and max(own) < 1 + ENOUGH * (max(calls) - 1)


def _ratios(case: CaseComparison, *explained: str) -> list[float]:
    return [each.ratio for each in case.estimates if METRICS[each.metric].explains in explained]


def _waited(seen: Seen) -> tuple[float, float] | None:
    return seen.medians(share("waited_s"))


def _waits_longer(seen: Seen) -> bool:
    shares = _waited(seen)
    return shares is not None and shares[1] - shares[0] > WAITED_FRACTION


class Growth(NamedTuple):
    """By how many seconds a part of the step takes longer: the mean over pairs, and its 95 % interval; None of one."""

    part: str
    seconds: float
    interval: tuple[float, float] | None

    @property
    def is_certain(self) -> bool:
        return self.interval is not None and self.interval[0] > 0


def _growths(case: Case, baseline: Side, side: Side) -> list[Growth]:
    """Of each part, the largest first; [] where the step copies nothing, or is not there without its copies as well."""
    problem = case.known_problem()
    twin = _case_of(problem.unfed(), case, baseline) if problem else None
    if twin is None:
        return []
    one, other = (_parts_of(each, case, twin) for each in (baseline, side))
    both = sorted(one.keys() & other.keys())
    parts = [part for part in (COPIES, KERNELS, LAUNCHES) if both and all(part in one[pair] for pair in both)]
    found = [_growth(part, [other[pair][part] - one[pair][part] for pair in both]) for part in parts]
    return sorted(found, key=lambda each: -each.seconds)


def _named(found: Sequence[Growth]) -> list[str]:
    """The parts that take longer for certain and make up a notable share of it."""
    whole_s = math.fsum(each.seconds for each in found)
    return [each.part for each in found if each.is_certain and each.seconds >= NOTABLE_SHARE * whole_s]


def _in_words(found: Sequence[Growth]) -> str:
    """What a step takes longer, and how much of it is which part."""
    whole_s = math.fsum(each.seconds for each in found)
    parts = ", ".join(f"{each.part} {format_time(each.seconds)}{_interval(each.interval)}" for each in found)
    return (
        f"of {format_time(whole_s)} that a step takes longer: {parts}, by the same step on data that are there already"
    )


def _case_of(problem: object, like: Case, side: Side) -> Case | None:
    """The case of a problem where another one ran."""
    if problem is None:
        return None
    every = (records[0].case for records in side.cases.values())
    there = (each for each in every if (each.backend, each.device) == (like.backend, like.device))
    return next((each for each in there if each.known_problem() == problem), None)


def _parts_of(side: Side, fed: Case, unfed: Case) -> dict[int, Mapping[str, float]]:
    """Process -> seconds of each part of its step, of launches none where its device's own time is not known."""
    of_fed, of_unfed = (side.numbers_of(identity(case)).of_all for case in (fed, unfed))
    whole, without = _telling("call", of_fed), _telling("call", of_unfed)
    device = _telling("clock", of_unfed)
    return {
        process: {COPIES: whole[process] - without[process]} | _of_unfed(without[process], device.get(process))
        for process in whole.keys() & without.keys()
    }


def _telling(what: str, values: MetricValues) -> Mapping[int, float]:
    """Of each process the first metric in the table by which that is told."""
    return values.get(next(name for name, metric in METRICS.items() if metric.explains == what), {})


def _of_unfed(stream_s: float, device_s: float | None) -> dict[str, float]:
    return {KERNELS: stream_s} if device_s is None else {KERNELS: device_s, LAUNCHES: stream_s - device_s}


def _growth(part: str, longer_s: Sequence[float]) -> Growth:
    return Growth(part, math.fsum(longer_s) / len(longer_s), stats.mean_interval(longer_s))


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f" [{', '.join(map(format_time, found))}]"
