"""What there is to say of the parts of a step: who bounds it, what to do first, and how to tell two places apart by it.

Whoever adds a part adds a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from primbench.results.step_explained import (
    COLLECTIVES,
    FAULTS,
    LAUNCHES,
    LOADING,
    PYTHON,
    QUEUING,
    RANKS,
    UNEXPLAINED,
)
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

StepPart = Literal[
    "kernels", "collectives", "copies", "operators", "launches", "waits", "data", "ranks", "queue", "faults",
    "python", "unexplained",
]  # fmt: skip
"""kernels, collectives, copies: ran on the GPU. operators, collectives: on the host, of a step without a GPU. While
nothing ran on the GPU, launches: the host was in operators or the driver's calls; waits: it had let the GPU run dry, as
it waited for it; data: it waited for the data loader; ranks: for another rank of its job; queue: it waited for a CPU;
faults: for pages of memory that it was the first to touch; python: it was in none of these.
"""

PARTS_OF_ROWS: Mapping[str, StepPart] = {
    LAUNCHES: "launches", PYTHON: "python", LOADING: "data", COLLECTIVES: "collectives", RANKS: "ranks",
    QUEUING: "queue", FAULTS: "faults", UNEXPLAINED: "unexplained",
}  # fmt: skip
"""Of rows that are no part which computes."""


class PartWords(NamedTuple):
    """What there is to say of a part of a step."""

    who: str
    """What bounds a step of which it is the most."""
    what: str
    """What was going on."""
    remedy: str
    """What to do first; {least} stands for how short the step may become by it at best."""
    study: str
    """How to find out whether two places differ in it."""
    verb: str = "bound"
    """As who is several."""


WORDS: Mapping[StepPart, PartWords] = {
    "kernels": PartWords(
        "the GPU's kernels", "kernels ran",
        "without any wait it would still take {least}: make the kernels faster",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "collectives": PartWords(
        "collectives that nothing hides", "collectives ran, and nothing that computes beside them",
        "begun earlier, or in larger pieces, beside what computes: {least} at best", "primbench allreduce --versus ARM",
    ),
    "copies": PartWords(
        "copies between host and GPU", "copies between host and GPU ran, and nothing beside them",
        "from pinned memory, with non_blocking=True and on a stream of their own: {least} at best",
        "primbench memcpy --versus ARM",
    ),
    "operators": PartWords(
        "torch's operators", "an operator of torch was under way",
        "faster operators, or fewer: without them it would take {least}",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "launches": PartWords(
        "the host's operators and launches", "nothing ran: the host was in operators and launches",
        "as a CUDA graph, or compiled by torch.compile(mode='reduce-overhead'): {least} at best",
        "primbench launch --versus ARM",
    ),
    "waits": PartWords(
        "waits for the GPU", "nothing ran: the host had waited for the GPU, as .item() does",
        "without these waits, or every so many steps: {least} at best", "primbench launch --versus ARM",
    ),
    "data": PartWords(
        "the data loader", "the data loader was waited for",
        "by more workers (num_workers, prefetch_factor): {least} at best", "primbench loader --versus ARM", "bounds",
    ),
    "ranks": PartWords(
        "waiting for a slower rank", "another rank of its job was waited for",
        "with ranks that are as quick as each other: {least} at best", "primbench allreduce --versus ARM", "bounds",
    ),
    "queue": PartWords(
        "waiting for a CPU", "its thread waited for a CPU",
        "with CPUs of its own: {least} at best", "primbench launch --versus ARM", "bounds",
    ),
    "faults": PartWords(
        "new memory", "the kernel cleared pages that were touched first",
        "with an allocator that keeps what is freed (jemalloc, or MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ of "
        "glibc): {least} at best", "primbench elementwise --versus ARM", "bounds",
    ),
    "python": PartWords(
        "Python between operators", "nothing ran: the host was in Python, or idle",
        "with fewer calls, or all as one, by torch.compile or on a GPU as a CUDA graph: {least} at best",
        "primbench launch --versus ARM", "bounds",
    ),
}  # fmt: skip


def said(parts: Sequence[StepPart], it: str, *, evenly: bool = False) -> str:
    """What bounds a step, the most first. evenly: whether they are known to be about equal; else any of them may."""
    names = [WORDS[part].who for part in parts]
    if evenly and len(names) > 1:
        return f"{', '.join(names[:-1])} and {names[-1]} bound {it} about equally"
    return ", or ".join([f"{names[0]} {WORDS[parts[0]].verb} {it}", *names[1:]])


def of_one(slowest: tuple[str, float] | None) -> str:
    """Which operator has most of a time, after it; "" where none has."""
    return f", of which {slowest[0]} takes {format_time(slowest[1])}" if slowest else ""
