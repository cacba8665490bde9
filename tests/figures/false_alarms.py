"""How often places that are equal are told apart where many things are looked at: the parts of a step.

Made times, through the rules themselves; seeded. Half a minute; `tests/primbench/compare/test_false_alarms.py` asserts
the same of fewer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from primbench.compare.sides import Side
from primbench.compare.step import compare_steps
from primbench.measurement import Measurement, Samples
from primbench.results.record import Record
from primbench.spec.case import Case


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


def rows(times: int) -> Iterator[tuple[str, str]]:
    dice = np.random.default_rng(14)
    for parts in (15, 40):
        for pairs in (5, 8):
            how = f"{parts} parts, {pairs} pairs"
            yield f"equal places, a part of the step told, {how}", f"{parts_told(dice, times, parts, pairs):.1%}"
            found = parts_told(dice, times, parts, pairs, longer=1.2)
            yield f"one part 20 % longer, a part told, {how}", f"{found:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=400)
    for what, found in rows(parser.parse_args().times):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
