"""How often what is equal is told apart where many things are looked at: parts of a step, a fleet beside itself.

Made times, through the rules themselves; seeded. Half a minute; `tests/primbench/compare/test_false_alarms.py` asserts
the same of fewer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from primbench.compare.sides import Side
from primbench.compare.step import compare_steps
from primbench.fleet.against import against
from primbench.fleet.folder import Members
from primbench.fleet.held import Read
from primbench.fleet.node import Value, Vocabulary
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.record import Record
from primbench.spec.case import Case

GEMM = Case(primitive="gemm", parameters=build("gemm", {"m": 64, "n": 64, "k": 64}).parameters(), backend="numpy",
            device="cpu")  # fmt: skip


def samples(seconds: float) -> Samples:
    return Samples(samples_s=[seconds], calls_per_sample=1, taken_by="host clock", stopped="count")


# --- the parts of a step


def step_side(name: str, dice: np.random.Generator, parts: int, pairs: int, longer: float = 1.0) -> Side:
    """A step of 10 ms on a CPU and its parts, each process with scatter of its own: 2 % of each part, 5 % of the step.

    longer: so many times as long is its first part.
    """
    whole = Case(primitive="model", parameters={"network": "mnist_cnn"}, backend="torch", device="cpu",
                 labels={"set": "whole"})  # fmt: skip
    cases = [
        Case(primitive=f"part {number}", parameters={}, backend="torch", device="cpu",
             labels={"set": "parts", "phase": "forward", "count": "1"})
        for number in range(parts)
    ]  # fmt: skip

    def record(case: Case, process: int, seconds: float, scatter: float) -> Record:
        timed = Measurement(batch_s=samples(seconds * float(np.exp(dice.normal(0, scatter)))))
        known = {field: getattr(case, field) for field in case.__struct_fields__}
        ran = Case(**known | {"arm": name, "process": process})
        return Record(case=ran, status="ok", measurement=timed, started_utc="", duration_s=1.0)

    records = []
    for process in range(pairs):
        records.append(record(whole, process, 1e-2, 0.05))
        for number, case in enumerate(cases):
            records.append(record(case, process, 1e-2 / parts * (longer if number == 0 else 1.0), 0.02))
    return Side(name=name, records=records, workers={})


def parts_told(dice: np.random.Generator, studies: int, parts: int, pairs: int, longer: float = 1.0) -> float:
    """The share of studies in which some part is said to be longer, or shorter, for certain."""
    told = 0
    for _ in range(studies):
        sides = step_side("a", dice, parts, pairs), step_side("b", dice, parts, pairs, longer)
        (found,) = compare_steps(sides[0], [(sides[1], False)])
        assert found is not None
        told += any(change.differs for change in found.changes)
    return told / studies


# --- a fleet beside itself at an earlier time


def fleet_at(dice: np.random.Generator, nodes: int, cases: int, longer: float = 1.0) -> Read:
    """Each case by its median on each node, which scatters by 5 % from run to run. longer: so many times as long."""
    known = Vocabulary(cases={b"%d" % number: GEMM for number in range(cases)})

    def value() -> Value:
        seconds = longer * float(np.exp(dice.normal(0, 0.05)))
        return Value(seconds, seconds)

    judged = {key: {"batch_s": {f"n{node}": value() for node in range(nodes)}} for key in known.cases}
    return Read(Members({}, [], 0, {}, {}), known, judged)


def fleets_told(dice: np.random.Generator, fleets: int, nodes: int, longer: float = 1.0, cases: int = 60) -> Told:
    """Of fleets beside an earlier time of theirs."""
    found = [
        against("before", fleet_at(dice, nodes, cases), fleet_at(dice, nodes, cases, longer)) for _ in range(fleets)
    ]
    return Told(
        sum(any(change.is_slower for change in each.changes) for each in found) / fleets,
        sum(each.is_slower for each in found) / fleets,
    )


class Told(NamedTuple):
    """Shares of fleets. whole: said to be slower as a whole; at_all: as a whole, or one of its nodes."""

    whole: float
    at_all: float


def rows(times: int) -> Iterator[tuple[str, str]]:
    dice = np.random.default_rng(14)
    for parts in (15, 40):
        for pairs in (5, 8):
            how = f"{parts} parts, {pairs} pairs"
            yield f"equal places, a part of the step told, {how}", f"{parts_told(dice, times, parts, pairs):.1%}"
            found = parts_told(dice, times, parts, pairs, longer=1.2)
            yield f"one part 20 % longer, a part told, {how}", f"{found:.1%}"
    for nodes in (3, 4, 8, 16):
        for longer in (1.0, 1.1):
            told = fleets_told(dice, times, nodes, longer)
            found_words = f"{told.whole:.1%} as a whole, {told.at_all:.1%} with its nodes"
            yield f"60 metrics of {nodes} nodes {longer:.1f} times as long as before, slower", found_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=400)
    for what, found in rows(parser.parse_args().times):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
