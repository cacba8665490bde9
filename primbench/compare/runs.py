"""Places that were not interleaved: runs of each, at their own times, whose unit is the run.

A machine is faster at one time and slower at another, for as long as a run: of one place, two runs of many processes
each differ for certain in one of eight cases. So a single run a side shows where these two are alike, not that their
places are: where runs scatter by as much as the margin, a third of places that differ by it look alike. And it never
shows that the places differ.
"""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.compare.sides import Side, sides_of
from primbench.errors import InvalidRequest
from primbench.runtimes.table import known
from primbench.spec.arm import Arm, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.results.file import Results
    from primbench.results.record import Record


def side_of(runs: Sequence[Results], name: str) -> Side:
    """One place by its runs: the processes of a single one, else all that each run measured as of one process.

    Raises InvalidRequest where a run holds several arms.
    """
    found = [_only_side(results, name) for results in runs]
    if len(found) == 1:
        return found[0]
    first_worker = [sum(max(side.workers, default=-1) + 1 for side in found[:number]) for number in range(len(found))]
    numbered = list(zip(found, first_worker, strict=True))
    return dataclasses.replace(
        found[0],
        records=[
            _of_run(record, number, start)
            for number, (side, start) in enumerate(numbered)
            for record in side.records
        ],
        workers={
            start + worker.worker: replace(worker, worker=start + worker.worker)
            for side, start in numbered
            for worker in side.workers.values()
        },
    )  # fmt: skip


def _only_side(results: Results, name: str) -> Side:
    sides = sides_of(results)
    if len(sides) != 1:
        raise InvalidRequest(f"{name}: holds {len(sides)} arms, {', '.join(sides)}: compare it alone")
    return dataclasses.replace(next(iter(sides.values())), name=name)


def _of_run(record: Record, run: int, first_worker: int) -> Record:
    worker = None if record.worker is None else first_worker + record.worker
    return replace(record, case=replace(record.case, process=run), worker=worker)


def how_to_pair(baseline: Side, side: Side, runs: int) -> str:
    """The command that interleaves two places; of one place at two times, what does instead.

    runs: how many there are of each.
    """
    arms = [_most_like(each) for each in (baseline, side)]
    if arms[0] == arms[1] and runs > 1:
        return f"of {runs} runs a side; more of them, one of each in turn, tell more"
    if arms[0] == arms[1]:
        return "run each several times, one now and the other next, and compare two folders of runs"
    primitives = dict.fromkeys(record.case.primitive for record in baseline.records)
    words = [*(("--arm", arm) for arm in arms), *(("--primitive", primitive) for primitive in primitives)]
    command = shlex.join(["primbench", "study", *(word for pair in words for word in pair)])
    return f"`{command}` interleaves the places, pair by pair"


def _most_like(side: Side) -> str:
    """The arm that is most like a place, as far as a run tells: its runtime, and where it was placed."""
    runtimes = [worker.environment.confinement.runtime for worker in side.used]
    names = [runtime.name for runtime in runtimes if runtime is not None and runtime.in_container]
    runtime = next((name for name in names if name in known()), "host")
    try:
        return words_of(Arm(name=runtime, runtime=runtime, placement=side.records[0].case.placement))
    except InvalidRequest:  # a placement that only a file can hold
        return runtime
