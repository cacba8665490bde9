"""Studies whose verdicts are audited: what processes measured, as recorded, relabelled at random, or made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from primbench.compare.comparison import CaseComparison
from primbench.compare.matching import Matching
from primbench.compare.numbers import CaseNumbers, MetricValues
from primbench.compare.sides import Side, sides_of
from primbench.compare.verdicts import verdicts
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.cpu_speed import Speed
from primbench.results.record import Record
from primbench.spec.case import Case

ROOT = Path(__file__).parents[1]
LAUNCHES = ROOT / "tests/primbench/fixtures/launches-one-after-the-other.jsonl.xz"
SAME_HOST = ROOT / "tests/primbench/fixtures/same-host.json"
SHAPE = {"m": 64, "n": 64, "k": 64}
GEMM = Case(primitive="gemm", parameters=build("gemm", SHAPE).parameters(), backend="numpy", device="cpu")
LAUNCH = Case(primitive="launch", parameters=build("launch", {}).parameters(), backend="cupy", device="cuda:0")


_SCALED = ("enqueue", "batch")


@dataclass(frozen=True)
class Process:
    """One case in one process. metric -> seconds, of all samples and of those at full speed; slow: the share of loops
    that the CPU ran slowly; None where none was timed.
    """

    numbers: Mapping[str, float]
    undisturbed: Mapping[str, float] = field(default_factory=dict)
    slow: float | None = None

    def scaled(self, factor: float) -> Process:
        """With a dearer call to enqueue, or to compute on the CPU: what waits for a GPU beside it takes as long."""
        numbers, undisturbed = (
            {metric: seconds * (factor if metric.startswith(_SCALED) else 1.0) for metric, seconds in found.items()}
            for found in (self.numbers, self.undisturbed)
        )
        return Process(numbers, undisturbed, self.slow)


Pair = Sequence[Mapping[bytes, Process]]
"""Of each arm what one process measured of each case."""


@dataclass(frozen=True)
class Study:
    cases: Mapping[bytes, Case]
    pairs: Sequence[Pair]


@dataclass(frozen=True)
class Known(Side):
    """A side whose numbers are given. processes: None is one that failed."""

    of: Mapping[bytes, Case] = field(default_factory=dict)
    processes: Sequence[Mapping[bytes, Process] | None] = ()

    @cached_property
    def cases(self) -> dict[bytes, list[Record]]:
        return {
            key: [
                Record(case=case, status="failed" if each is None else "ok", started_utc="", duration_s=1.0)
                for each in self.processes
            ]
            for key, case in self.of.items()
        }

    def numbers_of(self, key: bytes) -> CaseNumbers:
        return _Given({number: each[key] for number, each in enumerate(self.processes) if each and key in each})


class _Given(CaseNumbers):
    def __init__(self, processes: Mapping[int, Process]) -> None:
        """By their numbers."""
        super().__init__(())
        self.of_all = _by_metric({number: each.numbers for number, each in processes.items()})
        self.undisturbed = _by_metric({number: each.undisturbed for number, each in processes.items()})
        self.slowed = {number: each.slow for number, each in processes.items() if each.slow is not None}
        self.speed = Speed(1.0, 0.0, 1) if self.slowed else None


def _by_metric(processes: Mapping[int, Mapping[str, float]]) -> MetricValues:
    found: MetricValues = {}
    for number, numbers in processes.items():
        for metric, seconds in numbers.items():
            found.setdefault(metric, {})[number] = seconds
    return found


def side(name: str, cases: Mapping[bytes, Case], processes: Sequence[Mapping[bytes, Process] | None]) -> Known:
    return Known(name=name, records=(), workers={}, of=cases, processes=processes)


def judged(study: Study, matching: Matching, *, twice: bool = False) -> list[CaseComparison]:
    """The second arm against the first. twice: the third is the first once more."""
    arms = [
        side(str(number), study.cases, processes) for number, processes in enumerate(zip(*study.pairs, strict=True))
    ]
    return verdicts(arms[0], arms[1:2], arms[2] if twice else None, matching).arms[0].cases


# --- what was recorded


@cache
def launches() -> Study:
    """35 pairs of four arms on an H200: a launch by the driver, and one by CuPy."""
    sides = list(sides_of(results_file.read(LAUNCHES)).values())
    cases = {key: records[0].case for key, records in sides[0].cases.items()}
    numbers = [{key: each.numbers_of(key) for key in cases} for each in sides]
    pairs = [
        [
            {
                key: Process(
                    {metric: values[pair] for metric, values in each[key].of_all.items() if pair in values},
                    {metric: values[pair] for metric, values in each[key].undisturbed.items() if pair in values},
                    each[key].slowed.get(pair),
                )
                for key in cases
            }
            for each in numbers
        ]
        for pair in range(len(sides[0].cases[next(iter(cases))]))
    ]
    return Study(cases, pairs)


@cache
def same_host() -> list[Study]:
    """Ten studies of 5 pairs of two arms, 30 cases each, on two busy virtual cores."""
    recorded = json.loads(SAME_HOST.read_text())
    cases = {name.encode(): GEMM for name in recorded["cases"]}
    return [
        Study(
            cases,
            [
                [
                    {
                        key: Process(dict(zip(("batch_s", "batch_mean_s"), of_case[arm][pair], strict=True)))
                        for key, of_case in zip(cases, study, strict=True)
                    }
                    for arm in range(2)
                ]
                for pair in range(5)
            ],
        )
        for study in recorded["studies"]
    ]


def relabelled(
    study: Study, dice: np.random.Generator, *, pairs: int, factor: float = 1.0, arms: int = 2, again: bool = False
) -> Study:
    """So many of its pairs, the arms of each in a random order, the second scaled by ``factor``.

    again: pairs may be drawn more than once, and be more than there are.
    """
    chosen = dice.choice(len(study.pairs), size=pairs, replace=again)
    shuffled = [[study.pairs[pair][arm] for arm in dice.permutation(len(study.pairs[pair]))[:arms]] for pair in chosen]
    return Study(
        study.cases,
        [
            [
                {key: process.scaled(factor) for key, process in each.items()} if number == 1 else each
                for number, each in enumerate(pair)
            ]
            for pair in shuffled
        ],
    )
