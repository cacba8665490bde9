"""What bounds a step, in one sentence: by how much, and how short the first remedy can make it at best.

A step's time can often be told apart in several ways that are as good as each other: steps differ, and a profiler takes
a time of its own that nobody knows to the last part. What may be the most in one of them is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.devices import CPU, Device
from primbench.doctor.cause import listed
from primbench.report.step_words import PARTS_OF_ROWS, WORDS, of_one, said
from primbench.results.step_explained import PYTHON
from primbench.results.step_parts import BEYOND, IN_STEP, OTHERS, SLOWER
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.report.step_words import StepPart
    from primbench.results.step_explained import Explained
    from primbench.results.step_timed import Timed

    PartTimes = Mapping[StepPart, float]  # in seconds

MUCH = 0.1  # of a step
LONGER = 0.5  # of a step, by which parts alone exceed it: they ran otherwise than in the step
HOST: tuple[StepPart, ...] = ("launches", "waits", "python")  # what the GPU waits for that is the script's own


def bounding(parts_s: PartTimes, *, on_gpu: bool) -> StepPart | None:
    """The GPU, or what it waits for most, where it waits for more than it computes; None where most is unexplained."""
    groups = _groups(parts_s, on_gpu=on_gpu)
    most = max(groups, key=lambda part: groups[part], default=None)
    return None if most == "unexplained" else most


def _groups(parts_s: PartTimes, *, on_gpu: bool) -> dict[StepPart, float]:
    """What a GPU waits for that is the script's own is one, of the name of the most of it."""
    of_host = {part: parts_s[part] for part in HOST if part in parts_s} if on_gpu else {}
    groups = {part: time_s for part, time_s in parts_s.items() if part not in of_host}
    if of_host:
        groups[max(of_host, key=lambda part: of_host[part])] = sum(of_host.values())
    return groups


def of_group(part: StepPart, parts_s: PartTimes, *, on_gpu: bool) -> float:
    """Seconds of a part, and of what is one with it."""
    return sum(parts_s.get(each, 0.0) for each in (HOST if on_gpu and part in HOST else (part,)))


def bound_by(
    parts_s: PartTimes, ways: Sequence[PartTimes] = (), *, on_gpu: bool, never_waits: bool = False
) -> list[StepPart]:
    """What bounds a step, and what else may, the most first: what may lead in one of the ways to tell its time apart.
    [] where most is unexplained. ways: beside parts_s, as good as these. never_waits: the host for its GPU, of which it
    is the bound where that waits for it most, however long that computes meanwhile.
    """
    waits = {part: time_s for part, time_s in _groups(parts_s, on_gpu=on_gpu).items() if part != "kernels"}
    longest = max(waits, key=lambda part: waits[part], default=None)
    if never_waits and longest in HOST and waits[longest] > MUCH * sum(parts_s.values()):
        return [longest]
    first = bounding(parts_s, on_gpu=on_gpu)
    if first is None:
        return []
    found = [first, *(part for way in (parts_s, *ways) for part in _may_lead(way, on_gpu=on_gpu))]
    return sorted(_each_once(found, on_gpu=on_gpu), key=lambda part: -of_group(part, parts_s, on_gpu=on_gpu))


def _may_lead(parts_s: PartTimes, *, on_gpu: bool) -> list[StepPart]:
    """What is less than the most by no more than MUCH of the step."""
    groups = {part: time_s for part, time_s in _groups(parts_s, on_gpu=on_gpu).items() if part != "unexplained"}
    least_s = max(0.0, max(groups.values(), default=0.0) - MUCH * sum(parts_s.values()))
    return [part for part, time_s in groups.items() if time_s > least_s]


def _each_once(parts: Iterable[StepPart], *, on_gpu: bool) -> Iterable[StepPart]:
    """Those that are one by the name of the first."""
    apart: dict[StepPart, StepPart] = {}
    for part in parts:
        apart.setdefault("python" if on_gpu and part in HOST else part, part)
    return apart.values()


def sentence(
    parts_s: PartTimes,
    step_s: float,
    largest: tuple[str, float] | None,
    *,
    ways: Sequence[PartTimes] = (),
    on_gpu: bool,
    never_waits: bool = False,
    it: str = "this step",
) -> str:
    """parts_s: they add up to step_s. largest: of what computes the name that takes most, and how long it does. ways,
    never_waits: as bound_by() has them.
    """
    parts = bound_by(parts_s, ways, on_gpu=on_gpu, never_waits=never_waits)
    if not parts:
        return f"Most of {it} is unexplained: {format_time(parts_s.get('unexplained'))} of {format_time(step_s)}."
    remedies = "; ".join(
        WORDS[part].remedy.format(least=format_time(_at_best_s(parts_s, step_s, part, on_gpu=on_gpu))) for part in parts
    )
    times_s = [of_group(part, parts_s, on_gpu=on_gpu) for part in parts]
    bounds = said(parts, it, evenly=times_s[0] - times_s[-1] <= MUCH * step_s)
    if len(parts) > 1:
        spans = listed([_span(part, (parts_s, *ways), on_gpu=on_gpu) for part in parts])
        return f"{bounds[0].upper()}{bounds[1:]}: {spans} of {format_time(step_s)}; {remedies}."
    (part,) = parts
    is_named = largest is not None and part in ("kernels", "operators")
    most = f", {largest[0]} most, for {format_time(largest[1])}" if largest and is_named else ""
    return f"{bounds[0].upper()}{bounds[1:]}: {_busy(parts_s, step_s, part, on_gpu=on_gpu)}{most}; {remedies}."


def _span(part: StepPart, ways: Sequence[PartTimes], *, on_gpu: bool) -> str:
    """From the least to the most of a part."""
    times_s = [of_group(part, each, on_gpu=on_gpu) for each in ways]
    return " to ".join(dict.fromkeys(map(format_time, (min(times_s), max(times_s)))))


def _at_best_s(parts_s: PartTimes, step_s: float, part: StepPart, *, on_gpu: bool) -> float:
    """A step without the part that bounds it, no shorter than what is left; without all waits where kernels do."""
    if part == "kernels":
        return parts_s[part]
    both: tuple[StepPart, ...] = ("launches", "python") if on_gpu and part in ("launches", "python") else (part,)
    return max(0.0, step_s - sum(parts_s.get(each, 0.0) for each in both))


def _busy(parts_s: PartTimes, step_s: float, part: StepPart, *, on_gpu: bool) -> str:
    if not on_gpu:
        return f"{format_time(parts_s[part])} of {format_time(step_s)}"
    computes = f"the GPU computes {format_time(parts_s.get('kernels', 0.0))} of {format_time(step_s)}"
    if part == "kernels":
        return computes
    waits = format_time(of_group(part, parts_s, on_gpu=on_gpu))
    return f"{computes}, and waits for {'the host' if part in HOST else 'that'} {waits}"


def answer(steps: Sequence[tuple[str, Explained]]) -> str:
    """Of each step what bounds it, as far as its time is known, with its title where there are several."""
    return " ".join(_bounds(title, each, is_alone=len(steps) == 1) for title, each in steps)


def _bounds(title: str, explained: Explained, *, is_alone: bool) -> str:
    step_s = explained.step_s
    if not step_s or not is_told(explained):
        return f"{title}: {_most(explained)}.{of_ranks(explained)}"
    on_gpu, ways = Device.parse(explained.device).is_gpu, ways_of(explained)
    largest = _largest(explained) if is_quiet(explained) else None
    never_waits = explained.timed is not None and explained.timed.never_waits
    bounds = sentence(told_parts(explained), step_s, largest, ways=ways, on_gpu=on_gpu, never_waits=never_waits)
    return f"{'' if is_alone else f'{title}: '}{bounds}{of_ranks(explained)}{_left(explained)}"


def of_ranks(explained: Explained) -> str:
    """Which rank all others wait for, where one is."""
    ranks_s = explained.timed.ranks_s if explained.timed else []
    if len(ranks_s) < 2:
        return ""
    (least_s, last), (next_s, _), *_ = sorted((time_s, rank) for rank, time_s in enumerate(ranks_s))
    if next_s - least_s <= MUCH * explained.known_s:
        return ""
    waits = f"{format_time(least_s)} a step in collectives, where others wait {format_time(next_s)} and more"
    return f" Rank {last} comes last: it is {waits}."


def is_told(explained: Explained) -> bool:
    """Whether it is known what bounds it: by the steps as they ran, or by parts that add up to them."""
    return bool(explained.step_s) and (bool(ways_of(explained)) or _adds_up(explained))


def is_quiet(explained: Explained) -> bool:
    """Whether next to nothing of its parts was disturbed."""
    return explained.disturbed_s <= MUCH * explained.known_s


def _adds_up(explained: Explained) -> bool:
    """Whether so much of it was measured, and so little of that disturbed, that parts tell what bounds it."""
    return is_quiet(explained) and not _are_slower(explained) and _is_certain(explained)


def ways_of(explained: Explained) -> list[dict[StepPart, float]]:
    """With the least that Python may have of a CPU's step, and with the most, by its steps under the profiler: as these
    share their time, which differ; what others take longer may all be in operators, or between them, beyond pages that
    they touch first. [] where they do not tell.
    """
    timed = None if Device.parse(explained.device).is_gpu else explained.timed
    if timed is None or timed.between_s is None or timed.inside_s is None or timed.between_share is None:
        return []
    left_s = timed.left_s
    told_s = [share * left_s for share in timed.between_share]
    missed_s = left_s - timed.inside_s - timed.between_s
    if missed_s > 0:
        told_s += [timed.between_s, timed.between_s + max(0.0, missed_s - timed.faults_s)]
    found = []
    for python_s in (min(max(each, 0.0), left_s) for each in (min(told_s), max(told_s))):
        faults_s = min(timed.faults_s, left_s - python_s)
        operators_s = left_s - python_s - faults_s
        found.append(_waits(timed) | {"faults": faults_s, "python": python_s, "operators": operators_s})
    return found


def _waits(timed: Timed) -> dict[StepPart, float]:
    return {
        "data": timed.waits_s, "queue": timed.queues_s or 0.0, "collectives": timed.collectives_s,
        "ranks": timed.waits_for_rank_s,
    }  # fmt: skip


def told_parts(explained: Explained) -> dict[StepPart, float]:
    """What its time is made of: by its parts where they add up to no more than it, else by the steps as they ran."""
    ways, rest_s = ways_of(explained), explained.rest_s or 0.0
    if not ways or (_adds_up(explained) and rest_s >= -MUCH * explained.known_s):
        return parts_of(explained)
    return {part: sum(way[part] for way in ways) / len(ways) for part in ways[0]}


def _are_slower(explained: Explained) -> bool:
    """Whether parts take so much longer alone than the step that they do not tell what bounds it: half of the step
    and more, or what else is known to be in it leaves them less than that.
    """
    rest_s, step_s, timed = explained.rest_s, explained.step_s, explained.timed
    if rest_s is None or not step_s or rest_s >= -MUCH * step_s:
        return False
    if rest_s < -LONGER * step_s or timed is None or Device.parse(explained.device).is_gpu:
        return rest_s < -LONGER * step_s
    known = _waits(timed) | {"python": timed.between_s or 0.0}
    return bounding({**known, "operators": step_s - sum(known.values())}, on_gpu=False) != "operators"


def _left(explained: Explained) -> str:
    """What there is beside what bounds it."""
    if not is_quiet(explained):
        return " Something disturbed its parts while they were measured alone: what they take may be of any size."
    rest, longer = explained.unexplained_fraction, ""
    if (slower_s := explained.seconds(SLOWER)) > MUCH * explained.known_s:
        longer = f" In it operators take {format_time(slower_s)} more than alone{of_one(explained.slowest)}."
    if (beyond_s := explained.seconds(BEYOND)) > MUCH * explained.known_s:
        longer += f" Its kernels take {format_time(beyond_s)} more than those of its parts alone."
    if rest is None:
        return f" {_unmeasured(explained)}."
    if rest < -MUCH:
        return f" Measured alone, its parts take {format_percent(-rest)} more than the step."
    return f"{longer} {format_percent(rest)} is unexplained." if rest > MUCH else longer


def _is_certain(explained: Explained) -> bool:
    """Whether all was measured, or the same would bound it if what was not, or is unexplained, were of one part."""
    if explained.unexplained_fraction is not None:
        return bool(explained.rows)
    rest_s, parts_s = explained.rest_s, parts_of(explained)
    on_gpu = Device.parse(explained.device).is_gpu
    part = bounding(parts_s, on_gpu=on_gpu)
    if part is None or rest_s is None or rest_s < 0:
        return False
    others: tuple[StepPart, ...] = ("data", "ranks", "queue", "faults", "python", "kernels" if on_gpu else "operators")
    return all(bounding({**parts_s, each: parts_s.get(each, 0.0) + rest_s}, on_gpu=on_gpu) == part for each in others)


def _largest(explained: Explained) -> tuple[str, float]:
    """Of what computes the name that takes most, of other operators the operator's."""
    named = {
        row.name: row.seconds or 0.0
        for row in explained.rows
        if row.name not in {*PARTS_OF_ROWS, OTHERS, IN_STEP, SLOWER}
    }
    named |= explained.others
    for each in explained.in_step:
        named[each.name] = named.get(each.name, 0.0) + (each.seconds or 0.0)
    most = max(named, key=lambda name: named[name], default="nothing")
    return most, named.get(most, 0.0)


def parts_of(explained: Explained) -> dict[StepPart, float]:
    """What its time is made of, as a sentence names it."""
    on_gpu = Device.parse(explained.device).is_gpu
    computing: StepPart = "kernels" if on_gpu else "operators"
    named: Mapping[str, StepPart] = {**PARTS_OF_ROWS, SLOWER: "launches"} if on_gpu else PARTS_OF_ROWS
    if explained.timed and explained.timed.tells_all_of_host:
        named = {**named, PYTHON: "launches"}
    found: dict[StepPart, float] = {}
    for row in explained.rows:
        part = named.get(row.name, computing)
        found[part] = found.get(part, 0.0) + (row.seconds or 0.0)
    return found


def _most(explained: Explained) -> str:
    """What there is to say where not all of it is known."""
    if not is_quiet(explained):
        return f"too busy to tell, as something disturbed calls of {format_time(explained.disturbed_s)} of its parts"
    if not explained.rows or not explained.step_s:
        return "its time is not known"
    if _are_slower(explained):
        return _slower(explained, explained.step_s)
    largest = max(explained.rows, key=lambda row: row.seconds or 0.0)
    share = format_percent((largest.seconds or 0.0) / explained.step_s)
    return f"{largest.name} takes {share} of {format_time(explained.step_s)}, {_unmeasured(explained)}"


def _slower(explained: Explained, step_s: float) -> str:
    """Of parts that take longer than the step."""
    told, took_s = "measured alone, its parts take", step_s - (explained.rest_s or 0.0)
    quiet = f"{'ask for fewer --threads, or ' * (explained.device == CPU)}quiet the machine, or "
    if (once_s := explained.seconds(IN_STEP)) > step_s:
        told, took_s, quiet = "timed as it was recorded, calls that cannot be made again take", once_s, ""
    return (
        f"{told} {format_time(took_s)}, and the step took {format_time(step_s)}: slower than in the step, they do not "
        f"tell what bounds it; {quiet}set a trace of the script beside it, as primbench explain STEP.toml TRACE.json"
    )


def _unmeasured(explained: Explained) -> str:
    """How many calls were not, and what at most they and what is unexplained take."""
    several = f"{sum(explained.unmeasured.values())} of its calls were not measured"
    rest_s, step_s = explained.rest_s, explained.step_s
    if rest_s is None or not step_s or rest_s < 0:
        return several
    return f"{several}: with what is unexplained, they take {format_percent(rest_s / step_s)}"
