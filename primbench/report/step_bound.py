"""What bounds a step, in one sentence: by how much, and how short the first remedy can make it at best.

Whoever adds a part adds a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.devices import Device
from primbench.results.step_parts import IN_STEP, OTHERS, SLOWER
from primbench.results.step_sums import FAULTS, LAUNCHES, LOADING, PYTHON, QUEUING, RANKS, UNEXPLAINED
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.results.step_sums import Explained

MUCH = 0.1  # of a step
LONGER = 0.5  # of a step, by which parts alone exceed it: they ran otherwise than in the step

StepPart = Literal[
    "kernels", "collectives", "copies", "operators", "launches", "waits", "data", "ranks", "queue", "faults",
    "python", "unexplained",
]  # fmt: skip
"""kernels, collectives, copies: ran on the GPU. operators, collectives: on the host, of a step without a GPU. While
nothing ran on the GPU, launches: the host was in operators or the driver's calls; waits: it had let the GPU run dry, as
it waited for it; data: it waited for the data loader; ranks: for another rank of its job; queue: it waited for a CPU;
faults: for pages of memory that it was the first to touch; python: it was in none of these.
"""
HOST: tuple[StepPart, ...] = ("launches", "waits", "python")
"""What the GPU waits for that is the script's own."""


_PARTS: Mapping[str, StepPart] = {
    LAUNCHES: "launches", PYTHON: "python", LOADING: "data", RANKS: "ranks", QUEUING: "queue",
    FAULTS: "faults", UNEXPLAINED: "unexplained",
}  # fmt: skip
"""Rows of what is no part that computes."""


class PartWords(NamedTuple):
    """What there is to say of a part of a step."""

    bounds: str
    """What bounds a step of which it is the most."""
    what: str
    """What was going on."""
    remedy: str
    """What to do first; {least} stands for how short the step may become by it at best."""
    study: str
    """How to find out whether two places differ in it."""


WORDS: Mapping[StepPart, PartWords] = {
    "kernels": PartWords(
        "the GPU's kernels bound {it}", "kernels ran",
        "without any wait it would still take {least}: make the kernels faster",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "collectives": PartWords(
        "collectives that nothing hides bound {it}", "collectives ran, and no kernel beside them",
        "begun earlier, or in larger pieces, beside kernels: {least} at best", "primbench allreduce --versus ARM",
    ),
    "copies": PartWords(
        "copies between host and GPU bound {it}", "copies between host and GPU ran, and nothing beside them",
        "from pinned memory, with non_blocking=True and on a stream of their own: {least} at best",
        "primbench memcpy --versus ARM",
    ),
    "operators": PartWords(
        "torch's operators bound {it}", "an operator of torch was under way",
        "faster operators, or fewer: without them it would take {least}",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "launches": PartWords(
        "the host's operators and launches bound {it}", "nothing ran: the host was in operators and launches",
        "as a CUDA graph, or compiled by torch.compile(mode='reduce-overhead'): {least} at best",
        "primbench launch --versus ARM",
    ),
    "waits": PartWords(
        "waits for the GPU bound {it}", "nothing ran: the host had waited for the GPU, as .item() does",
        "without these waits, or every so many steps: {least} at best", "primbench launch --versus ARM",
    ),
    "data": PartWords(
        "the data loader bounds {it}", "the data loader was waited for",
        "by more workers (num_workers, prefetch_factor): {least} at best", "primbench loader --versus ARM",
    ),
    "ranks": PartWords(
        "waiting for a slower rank bounds {it}", "another rank of its job was waited for",
        "with ranks that are as quick as each other: {least} at best", "primbench allreduce --versus ARM",
    ),
    "queue": PartWords(
        "waiting for a CPU bounds {it}", "its thread waited for a CPU",
        "with CPUs of its own: {least} at best", "primbench launch --versus ARM",
    ),
    "faults": PartWords(
        "new memory bounds {it}", "the kernel cleared pages that were touched first",
        "with an allocator that keeps what is freed (jemalloc, or MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ of "
        "glibc): {least} at best", "primbench elementwise --versus ARM",
    ),
    "python": PartWords(
        "Python between operators bounds {it}", "nothing ran: the host was in Python, or idle",
        "as a CUDA graph, or with fewer calls: {least} at best", "primbench launch --versus ARM",
    ),
}  # fmt: skip


def bounding(parts_s: Mapping[StepPart, float], *, on_gpu: bool) -> StepPart | None:
    """The GPU, or what it waits for most, where it waits for more than it computes; None where most is unexplained."""
    of_host = {part: parts_s[part] for part in HOST if part in parts_s} if on_gpu else {}
    groups = {part: time_s for part, time_s in parts_s.items() if part not in of_host}
    if of_host:
        groups[max(of_host, key=lambda part: of_host[part])] = sum(of_host.values())
    most = max(groups, key=lambda part: groups[part], default=None)
    return None if most == "unexplained" else most


def sentence(
    parts_s: Mapping[StepPart, float], step_s: float, largest: tuple[str, float], *, on_gpu: bool, it: str = "this step"
) -> str:
    """parts_s: they add up to step_s. largest: of what computes the name that takes most, and how long it does."""
    part = bounding(parts_s, on_gpu=on_gpu)
    if part is None:
        return f"Most of {it} is unexplained: {format_time(parts_s.get('unexplained'))} of {format_time(step_s)}."
    said, least = WORDS[part].bounds.format(it=it), format_time(_at_best_s(parts_s, step_s, part, on_gpu=on_gpu))
    remedy = WORDS[part].remedy.format(least=least)
    most = f", {largest[0]} most, for {format_time(largest[1])}" if part in ("kernels", "operators") else ""
    return f"{said[0].upper()}{said[1:]}: {_busy(parts_s, step_s, part, on_gpu=on_gpu)}{most}; {remedy}."


def _at_best_s(parts_s: Mapping[StepPart, float], step_s: float, part: StepPart, *, on_gpu: bool) -> float:
    """A step without the part that bounds it, no shorter than what is left; without all waits where kernels do."""
    if part == "kernels":
        return parts_s[part]
    both: tuple[StepPart, ...] = ("launches", "python") if on_gpu and part in ("launches", "python") else (part,)
    return max(0.0, step_s - sum(parts_s.get(each, 0.0) for each in both))


def _busy(parts_s: Mapping[StepPart, float], step_s: float, part: StepPart, *, on_gpu: bool) -> str:
    if not on_gpu:
        return f"{format_time(parts_s[part])} of {format_time(step_s)}"
    computes = f"the GPU computes {format_time(parts_s.get('kernels', 0.0))} of {format_time(step_s)}"
    if part == "kernels":
        return computes
    is_host = part in HOST
    waits_s = sum(parts_s.get(each, 0.0) for each in (HOST if is_host else (part,)))
    return f"{computes}, and waits for {'the host' if is_host else 'that'} {format_time(waits_s)}"


def answer(steps: Sequence[tuple[str, Explained]]) -> str:
    """Of each step what bounds it, as far as its time is known, with its title where there are several."""
    return " ".join(_bounds(title, each, is_alone=len(steps) == 1) for title, each in steps)


def _bounds(title: str, explained: Explained, *, is_alone: bool) -> str:
    step_s = explained.step_s
    if not step_s or not is_told(explained):
        return f"{title}: {_most(explained)}.{of_ranks(explained)}"
    on_gpu = Device.parse(explained.device).is_gpu
    said = sentence(parts_of(explained), step_s, _largest(explained), on_gpu=on_gpu)
    return f"{'' if is_alone else f'{title}: '}{said}{of_ranks(explained)}{_left(explained)}"


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
    """Whether so much of it was measured, and so little of that disturbed, that it is known what bounds it."""
    is_quiet = explained.disturbed_s <= MUCH * explained.known_s
    return is_quiet and bool(explained.step_s) and not _are_slower(explained) and _is_certain(explained)


def _are_slower(explained: Explained) -> bool:
    """Whether parts take so much longer alone than the step that they do not tell what bounds it: half of the step
    and more, or what else is known to be in it leaves them less than that.
    """
    rest_s, step_s, timed = explained.rest_s, explained.step_s, explained.timed
    if rest_s is None or not step_s or rest_s >= -MUCH * step_s:
        return False
    if rest_s < -LONGER * step_s or timed is None or Device.parse(explained.device).is_gpu:
        return rest_s < -LONGER * step_s
    known: dict[StepPart, float] = {
        "python": timed.between_s or 0.0, "data": timed.waits_s, "queue": timed.queues_s or 0.0,
        "ranks": timed.waits_for_rank_s,
    }  # fmt: skip
    return bounding({**known, "operators": step_s - sum(known.values())}, on_gpu=False) != "operators"


def _left(explained: Explained) -> str:
    """What there is beside what bounds it."""
    rest, slower_s = explained.unexplained_fraction, explained.seconds(SLOWER)
    said = (
        f" In it operators take {format_time(slower_s)} more than alone." if slower_s > MUCH * explained.known_s else ""
    )
    if rest is None:
        return f" {_unmeasured(explained)}."
    if rest < -MUCH:
        return f" Measured alone, its parts take {format_percent(-rest)} more than the step."
    return f"{said} {format_percent(rest)} is unexplained." if rest > MUCH else said


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
        row.name: row.seconds or 0.0 for row in explained.rows if row.name not in {*_PARTS, OTHERS, IN_STEP, SLOWER}
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
    named: Mapping[str, StepPart] = {**_PARTS, SLOWER: "launches"} if on_gpu else _PARTS
    found: dict[StepPart, float] = {}
    for row in explained.rows:
        part = named.get(row.name, computing)
        found[part] = found.get(part, 0.0) + (row.seconds or 0.0)
    return found


def _most(explained: Explained) -> str:
    """What there is to say where not all of it is known."""
    if explained.disturbed_s > MUCH * explained.known_s:
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
    alone_s = format_time(step_s - (explained.rest_s or 0.0))
    longer = f"measured alone, its parts take {alone_s}, and the step took {format_time(step_s)}"
    ways = (
        "quiet the machine"
        if Device.parse(explained.device).is_gpu
        else "ask for fewer --threads, or quiet the machine"
    )
    return (
        f"{longer}: they ran slower than in the step, and do not tell what bounds it; {ways}, or set a trace of the "
        "script beside it, as primbench explain STEP.toml TRACE.json"
    )


def _unmeasured(explained: Explained) -> str:
    """How many calls were not, and what at most they and what is unexplained take."""
    several = f"{sum(explained.unmeasured.values())} of its calls were not measured"
    rest_s, step_s = explained.rest_s, explained.step_s
    if rest_s is None or not step_s or rest_s < 0:
        return several
    return f"{several}: with what is unexplained, they take {format_percent(rest_s / step_s)}"
