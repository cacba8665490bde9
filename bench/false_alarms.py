"""How often what is equal is told apart where many things are looked at, or not at one time: parts of a
step, a fleet beside itself, and a machine's runs of one day beside those of another. And how often unequal ones are
called alike by few processes.

Made times, through the rules themselves; seeded. Three minutes; `tests/primbench/compare/test_false_alarms.py` asserts
the same of fewer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from primbench.compare.gate import Gate
from primbench.compare.matching import Matching, paired
from primbench.compare.pairs import compare_runs
from primbench.compare.sides import Side
from primbench.compare.step import compare_steps
from primbench.compare.verdicts import verdicts
from primbench.environment import fingerprint
from primbench.errors import InvalidRequest
from primbench.fleet.against import against
from primbench.fleet.folder import FleetFiles
from primbench.fleet.node import NodeValue, Vocabulary
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.results.record import Header, Record
from primbench.spec.case import Case

GEMM = Case(primitive="gemm", parameters=build("gemm", {"m": 64, "n": 64, "k": 64}).parameters(), backend="numpy",
            device="cpu")  # fmt: skip
CASES = [replace(GEMM, parameters=build("gemm", {"m": m, "n": 64, "k": 64}).parameters()) for m in range(1, 21)]
HERE = fingerprint.collect(gpus=False)


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


def fleet_at(dice: np.random.Generator, nodes: int, cases: int, longer: float = 1.0) -> FleetFiles:
    """Each case by its median on each node, which scatters by 5 % from run to run. longer: so many times as long."""
    known = Vocabulary(cases={b"%d" % number: GEMM for number in range(cases)})

    def value() -> NodeValue:
        seconds = longer * float(np.exp(dice.normal(0, 0.05)))
        return NodeValue(seconds, seconds)

    judged = {key: {"batch_s": {f"n{node}": value() for node in range(nodes)}} for key in known.cases}
    return FleetFiles(known, judged)


def fleets_told(dice: np.random.Generator, fleets: int, nodes: int, longer: float = 1.0, cases: int = 60) -> Told:
    """Of fleets beside an earlier time of theirs."""
    peers = dict.fromkeys(f"n{node}" for node in range(nodes))
    found = [
        against("before", fleet_at(dice, nodes, cases), fleet_at(dice, nodes, cases, longer), peers)
        for _ in range(fleets)
    ]
    return Told(
        sum(any(change.is_slower for change in each.changes) for each in found) / fleets,
        sum(each.is_slower for each in found) / fleets,
    )


# --- runs that were kept: of a machine that is faster in one session than in another


def kept(
    dice: np.random.Generator, sessions: int, runs: int, deviation: float, *, first: int, longer: float = 1.0
) -> list[Results]:
    """So many runs in each of so many sessions, days from ``first`` on, of 20 cases.

    deviation: of each case from session to session; from run to run it is 0.5 %. longer: so many times as long is one.
    """
    found = []
    for session in range(sessions):
        moods = np.exp(dice.normal(0, deviation, len(CASES)))
        for run in range(runs):
            began = datetime(2026, 11, 1, 9, run, tzinfo=UTC) + timedelta(days=first + session)
            environment = replace(HERE, machine=replace(HERE.machine, boot_id=None))
            head = Header(
                schema_version=1, command=[], started_utc=began.isoformat(), labels={}, environment=environment
            )
            found.append(Results(header=head, workers=[], records=[
                Record(case=case, status="ok", started_utc="", duration_s=1.0, measurement=Measurement(batch_s=samples(
                    float(mood * np.exp(dice.normal(0, 0.005))) * (longer if case is CASES[0] else 1.0)
                )))
                for case, mood in zip(CASES, moods, strict=True)
            ]))  # fmt: skip
    return found


class Gates(NamedTuple):
    """Shares of gates at 5 % that fail by a case that is slower, refuse to tell, and fail as nothing is told."""

    slower: float
    refused: float
    untold: float


def gates_failed(
    dice: np.random.Generator,
    gates: int,
    deviation: float,
    sessions: tuple[int, int],
    *,
    longer: float = 1.0,
    together: bool = False,
    runs: int = 3,
) -> Gates:
    """sessions: of the baseline, and of what is set against it. together: in the same ones, one now, the other next."""
    gate, counts = Gate(above=0.05), [0, 0, 0]
    for _ in range(gates):
        before = kept(dice, sessions[0], runs, deviation, first=0)
        if together:
            after = [
                replace(each, records=[_again(record, dice, longer) for record in each.records]) for each in before
            ]
        else:
            after = kept(dice, sessions[1], runs, deviation, first=sessions[0], longer=longer)
        found = compare_runs(before, after, ("before", "after"))
        try:
            gate.check(found)
        except InvalidRequest:
            counts[1] += 1
            continue
        if not gate.passes(found):
            counts[0 if any(case.verdict == "slower" for case in found.cases) else 2] += 1
    return Gates(*(count / gates for count in counts))


def _again(record: Record, dice: np.random.Generator, longer: float) -> Record:
    """The same case in the same session, by another run."""
    assert record.measurement is not None
    assert record.measurement.batch_s is not None
    seconds = record.measurement.batch_s.median_s * float(np.exp(dice.normal(0, 0.007)))
    timed = samples(seconds * (longer if record.case == CASES[0] else 1.0))
    return replace(record, measurement=Measurement(batch_s=timed))


# --- processes of two kinds


def alike_though(dice: np.random.Generator, studies: int, pairs: int) -> float:
    """The share of places called equivalent within 1 % of which a fifth of the processes take 10 % longer."""
    found = 0
    for _ in range(studies):
        of_process = {"a": np.ones(pairs), "b": np.where(dice.random(pairs) < 0.2, 1.1, 1.0)}
        sides = [_once(name, times * np.exp(dice.normal(0, 0.002, pairs))) for name, times in of_process.items()]
        ((case,),) = (each.cases for each in verdicts(sides[0], sides[1:], None, Matching(paired)).arms)
        found += case.verdict in ("equivalent", "different-but-small")
    return found / studies


def _once(name: str, times_s: Iterable[float]) -> Side:
    records = [
        Record(case=replace(GEMM, arm=name, process=pair), status="ok", started_utc="", duration_s=1.0,
               measurement=Measurement(batch_s=samples(float(time_s))))
        for pair, time_s in enumerate(times_s)
    ]  # fmt: skip
    return Side(name=name, records=records, workers={})


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
    for pairs in (3, 5, 8, 11, 16):
        yield f"a fifth of processes 10 % longer, equivalent, {pairs} pairs", f"{alike_though(dice, times, pairs):.1%}"
    for nodes in (3, 4, 8, 16):
        for longer in (1.0, 1.1):
            told = fleets_told(dice, times, nodes, longer)
            found_words = f"{told.whole:.1%} as a whole, {told.at_all:.1%} with its nodes"
            yield f"60 metrics of {nodes} nodes {longer:.1f} times as long as before, slower", found_words

    for deviation in (0.02, 0.03):
        for sessions, together in (
            ((1, 1), False),
            ((1, 1), True),
            ((3, 1), False),
            ((5, 1), False),
            ((3, 3), False),
            ((5, 5), False),
        ):
            for longer in (1.0, 1.3):
                gates = gates_failed(dice, max(1, times // 4), deviation, sessions, longer=longer, together=together)
                days = "the same day" if together else f"{sessions[0]} and {sessions[1]} days"
                what = "alike" if longer == 1 else "one of 20 cases 30 % longer"
                yield f"--fail-above 5%, {days}, days scatter by {deviation:.0%}, {what}", str(gates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=400)
    for what, found in rows(parser.parse_args().times):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
