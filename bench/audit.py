"""How often verdicts are wrong, and how much they find, by the rules themselves.

Promised by the table of verdicts in docs/method.md. Processes that were recorded, in suites/reference/studies and in
tests/primbench/fixtures/same-host.json, are relabelled at random within their pairs: then all arms are one place for
certain, and every drift is kept. Made ones have the effect of which the verdict is to be told. Seeded. CI asserts the
same of fewer studies: `tests/primbench/compare/test_audit.py`. Takes three minutes; --studies 2000, half an hour.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from primbench.compare.comparison import CaseComparison
from primbench.compare.matching import WHILE_LOOKING, Matching, paired, unpaired
from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.settled import is_settled
from primbench.compare.sides import MetricValues, Side, identity, sides_of
from primbench.compare.verdicts import verdicts
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.cpu_speed import Speed
from primbench.results.record import Record
from primbench.spec.case import Case

ROOT = Path(__file__).parents[1]
LAUNCHES = ROOT / "tests/primbench/fixtures/launches-one-after-the-other.jsonl.xz"
SAME_HOST = ROOT / "tests/primbench/fixtures/same-host.json"
LOOKS = range(5, 41)  # the pairs after which a study may end by itself
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

    def _values(self, key: bytes, *, undisturbed: bool) -> MetricValues:
        found: MetricValues = {}
        for number, each in enumerate(self.processes):
            if each is not None and key in each:
                for metric, seconds in (each[key].undisturbed if undisturbed else each[key].numbers).items():
                    found.setdefault(metric, {})[number] = seconds
        return found

    @cached_property
    def numbers(self) -> dict[bytes, MetricValues]:
        return {key: self._values(key, undisturbed=False) for key in self.of}

    @cached_property
    def undisturbed(self) -> dict[bytes, MetricValues]:
        return {key: self._values(key, undisturbed=True) for key in self.of}

    @cached_property
    def speeds(self) -> dict[bytes, Speed]:
        return {key: Speed(1.0, 0.0) for key in self.of if self.slowed(key)}

    def slowed(self, key: bytes) -> dict[int, float]:
        found = {number: each[key].slow for number, each in enumerate(self.processes) if each and key in each}
        return {number: share for number, share in found.items() if share is not None}


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
    slow = [{key: each.slowed(key) for key in cases} for each in sides]
    pairs = [
        [
            {
                key: Process(
                    {metric: values[pair] for metric, values in each.numbers[key].items() if pair in values},
                    {metric: values[pair] for metric, values in each.undisturbed[key].items() if pair in values},
                    shares[key].get(pair),
                )
                for key in cases
            }
            for each, shares in zip(sides, slow, strict=True)
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


PAIRED = Matching(paired)


class Equal(NamedTuple):
    """Of studies of equal arms. false_alarms: the share in which a case is called slower or faster. coverage: the share
    of the primary metrics' 95 % intervals that hold the truth.
    """

    false_alarms: float
    coverage: float


def of_equal_arms(
    studies: Sequence[Study], dice: np.random.Generator, times: int, pairs: int, *, twice: bool = False
) -> Equal:
    found = [
        judged(relabelled(study, dice, pairs=pairs, arms=2 + twice), PAIRED, twice=twice)
        for study in studies
        for _ in range(times)
    ]
    intervals = [case.primary.interval for cases in found for case in cases if case.primary and case.primary.interval]
    return Equal(
        sum(any(case.verdict in ("slower", "faster") for case in cases) for cases in found) / len(found),
        sum(low <= 1 <= high for low, high in intervals) / len(intervals),
    )


def told(
    study: Study, dice: np.random.Generator, studies: int, pairs: int, factor: float, *, twice: bool = False
) -> Counter[str | None]:
    """The verdicts of all cases where the second arm takes ``factor`` times as long."""
    return Counter(
        case.verdict
        for _ in range(studies)
        for case in judged(relabelled(study, dice, pairs=pairs, factor=factor, arms=2 + twice), PAIRED, twice=twice)
    )


def settled(study: Study, dice: np.random.Generator, studies: int, factor: float) -> tuple[Counter[str | None], float]:
    """The verdicts of studies of one case that end by themselves, and after how many pairs on average."""
    found: Counter[str | None] = Counter()
    pairs = 0
    for number in range(studies):
        key = list(study.cases)[number % len(study.cases)]
        alone = Study({key: study.cases[key]}, study.pairs)
        whole = relabelled(alone, dice, pairs=LOOKS[-1], factor=factor, again=True)
        for look in LOOKS:
            (case,) = judged(Study(whole.cases, whole.pairs[:look]), Matching(paired, WHILE_LOOKING))
            if is_settled(case):
                break
        found[case.verdict] += 1
        pairs += look
    return found, pairs / studies


# --- what is made: two arms of one case, by what their processes measure


def made(case: Case, arms: Sequence[Sequence[Process | None]]) -> CaseComparison:
    """The verdict of a study in which each arm's processes measured this; None is a process that failed."""
    key = identity(case)
    baseline, other = (
        side(name, {key: case}, [None if each is None else {key: each} for each in processes])
        for name, processes in zip(("host", "podman"), arms, strict=True)
    )
    return verdicts(baseline, [other], None, PAIRED).arms[0].cases[0]


def sometimes_slow(dice: np.random.Generator, p: float, pairs: int = 16) -> CaseComparison:
    """Finding 1: processes of one arm run at a slow CPU with a probability of p, and are 1.4 times as long then."""

    def process(chance: float) -> Process:
        seconds, is_slow = 4e-6 * math.exp(dice.normal(0, 0.01)), bool(dice.random() < chance)
        whole = {"enqueue_s": seconds * (1.4 if is_slow else 1.0)}
        return Process(whole, {} if is_slow else {"enqueue_s": seconds}, float(is_slow))

    return made(LAUNCH, [[process(chance) for _ in range(pairs)] for chance in (0.0, p)])


def lost_mean(dice: np.random.Generator, pairs: int = 8) -> CaseComparison:
    """Finding 2: one batch of fifty takes three times as long, which is 4 % of the mean and nothing of the median."""

    def process(factor: float) -> Process:
        seconds = 1e-3 * math.exp(dice.normal(0, 0.002))
        return Process({"batch_s": seconds, "batch_mean_s": seconds * factor * math.exp(dice.normal(0, 0.002))})

    return made(GEMM, [[process(factor) for _ in range(pairs)] for factor in (1.0, 1.04)])


def moody(dice: np.random.Generator, processes: int = 8) -> CaseComparison:
    """Finding 4: two runs of one place, each with the mood of its time, unpaired."""
    key, arms = identity(GEMM), []
    for name in ("a", "b"):
        mood = math.exp(dice.normal(0, 0.02))
        times = [{key: Process({"batch_s": 1e-3 * mood * math.exp(dice.normal(0, 0.004))})} for _ in range(processes)]
        arms.append(side(name, {key: GEMM}, times))
    return verdicts(arms[0], arms[1:], None, Matching(unpaired, is_one_run=True)).arms[0].cases[0]


def about_the_margin(dice: np.random.Generator, pairs: int = 16) -> CaseComparison:
    """Finding 5: 0.99 % longer, known to 0.1 %."""

    def process(factor: float) -> Process:
        return Process({"batch_s": 1e-3 * factor * math.exp(dice.normal(0, 0.001))})

    return made(GEMM, [[process(factor) for _ in range(pairs)] for factor in (1.0, 1.0099)])


def failing(dice: np.random.Generator, pairs: int = 16, failures: int = 10) -> CaseComparison:
    """Finding 6: ten of sixteen processes of one arm fail."""
    processes = [[Process({"batch_s": 1e-3 * math.exp(dice.normal(0, 0.002))}) for _ in range(pairs)] for _ in range(2)]
    return made(GEMM, [processes[0], [*processes[1][failures:], *[None] * failures]])


# --- many cases, few pairs: what is borrowed


class Many(NamedTuple):
    """A study of many cases of one host, whose pairs deviate by ``typical``, give or take a spread of logarithms.

    common: the share of a pair's variance that all its cases have in common. A tenth of the cases scatters ``wild``
    times as much.
    """

    cases: int
    spread: float
    common: float
    wild: float = 1.0
    typical: float = 0.005

    def drawn(self, dice: np.random.Generator, pairs: int, factor: float = 1.0) -> Study:
        """factor: so many times as long takes the second arm."""
        cases = dict(islice(_cases(), self.cases))
        deviations = self.typical * np.exp(dice.normal(0, self.spread, self.cases))
        deviations[: self.cases // 10] *= self.wild
        both = math.sqrt(self.common) * dice.normal(size=(pairs, 1))
        own = math.sqrt(1 - self.common) * dice.normal(size=(pairs, self.cases))
        times = factor * np.exp(deviations * (both + own))
        return Study(
            cases,
            [
                [
                    {key: Process({"batch_s": 1e-3 * float(each)}) for key, each in zip(cases, arm, strict=True)}
                    for arm in (np.ones(self.cases), of_pair)
                ]
                for of_pair in times
            ],
        )


@cache
def _known(number: int) -> tuple[bytes, Case]:
    case = replace(GEMM, parameters=build("gemm", {**SHAPE, "m": number}).parameters())
    return identity(case), case


def _cases() -> Iterator[tuple[bytes, Case]]:
    return map(_known, count(1))


MANY = {
    "alike but for their own scatter": Many(30, 0.5, 0.0),
    "which scatter together": Many(30, 0.5, 0.7),
    "a tenth of which scatter five times as much": Many(80, 1.0, 0.2, wild=5.0),
    "as few as borrow": Many(12, 0.5, 0.2),
}


class OfMany(NamedTuple):
    """Shares. false_alarms: of studies of equal arms; coverage: of 95 % intervals; of_wild: the same, of the cases that
    scatter more; decided: of cases of equal arms; at_margin: of cases that differ by it, told to be within it.
    """

    false_alarms: float
    coverage: float
    of_wild: float
    decided: float
    at_margin: float


def of_many(many: Many, dice: np.random.Generator, studies: int, pairs: int) -> OfMany:
    equal = [judged(many.drawn(dice, pairs), PAIRED) for _ in range(studies)]
    moved = [judged(many.drawn(dice, pairs, 1.01), PAIRED) for _ in range(studies)]
    holds = np.array(
        [[low <= 1 <= high for case in cases for low, high in [interval_of(case)]] for cases in equal], dtype=float
    )
    return OfMany(
        sum(any(case.verdict in ("slower", "faster") for case in cases) for cases in equal) / studies,
        float(holds.mean()),
        float(holds[:, : many.cases // 10].mean()),
        sum(case.verdict != "inconclusive" for cases in equal for case in cases) / studies / many.cases,
        sum(case.verdict in WITHIN_MARGIN for cases in moved for case in cases) / studies / many.cases,
    )


def interval_of(case: CaseComparison) -> tuple[float, float]:
    assert case.primary is not None
    assert case.primary.interval is not None
    return case.primary.interval


def settled_many(
    many: Many, dice: np.random.Generator, studies: int, factor: float
) -> tuple[Counter[str | None], float]:
    """As ``settled``, of studies of many cases, of which only those go on that are not settled; pairs a case."""
    found: Counter[str | None] = Counter()
    pairs = 0
    for _ in range(studies):
        whole = many.drawn(dice, LOOKS[-1], factor)
        ended = dict.fromkeys(whole.cases, LOOKS[-1])
        for look in LOOKS:
            ran = [
                [{key: each for key, each in arm.items() if number < min(look, ended[key])} for arm in pair]
                for number, pair in enumerate(whole.pairs[:look])
            ]
            cases = judged(Study(whole.cases, ran), Matching(paired, WHILE_LOOKING))
            open_keys = {identity(case.case) for case in cases if not is_settled(case)}
            ended = {key: LOOKS[-1] if key in open_keys else min(at, look) for key, at in ended.items()}
            if not open_keys:
                break
        found.update(case.verdict for case in cases)
        pairs += sum(min(at, look) for at in ended.values())
    return found, pairs / studies / many.cases


# --- the table


def share(found: Counter[str | None], *words: str) -> float:
    return sum(found[word] for word in words) / found.total()


def words(found: Counter[str | None]) -> str:
    shares = ", ".join(f"{count / found.total():.1%} {word}" for word, count in found.most_common())
    return f"of {found.total()}: {shares}"


def rows(studies: int, seed: int) -> Iterator[tuple[str, str]]:
    dice = np.random.default_rng(seed)
    few = max(1, studies // 20)  # of each of ten studies of 30 cases
    yield from _of_equal_arms("30 cases on a busy host, 5 pairs", of_equal_arms(same_host(), dice, few, 5))
    for pairs in (8, 16, 35):
        for twice in (False, True):
            how = f"launches, {pairs} pairs{', --self' * twice}"
            yield from _of_equal_arms(how, of_equal_arms([launches()], dice, studies, pairs, twice=twice))
            at_margin = told(launches(), dice, studies, pairs, 1.05, twice=twice)
            within = share(at_margin, *WITHIN_MARGIN)
            yield f"false equivalence at the margin, {how}", f"{within:.1%} of {at_margin.total()} cases"
    for what, factor in (("at the margin", 1.05), ("of equal arms", 1.0)):
        ended, pairs_run = settled(launches(), dice, studies // 2, factor)
        yield f"--until settled {what}, launches", f"after {pairs_run:.1f} pairs: {words(ended)}"
    for name, many in MANY.items():
        yield from _of_many(f"{many.cases} cases, {name}", many, dice, studies)
    for name, make in FINDINGS.items():
        yield name, words(Counter(make(dice).verdict for _ in range(studies)))
    for twice in (False, True):
        found = told(launches(), dice, studies, 8, 1.1, twice=twice)
        yield f"7: launches take 10 % longer, 8 pairs{', --self' * twice}", words(found)


def _of_many(how: str, many: Many, dice: np.random.Generator, studies: int) -> Iterator[tuple[str, str]]:
    for pairs in (3, 5, 8):
        found = of_many(many, dice, studies, pairs)
        yield (
            f"{how}, {pairs} pairs",
            f"of {studies} studies: {found.false_alarms:.1%} false alarms of a study, coverage {found.coverage:.1%}, "
            f"of those that scatter most {found.of_wild:.1%}, {found.decided:.1%} decided, "
            f"{found.at_margin:.1%} at the margin called within",
        )
    for what, factor in (("at the margin", 1.01), ("of equal arms", 1.0)):
        ended, pairs_run = settled_many(many, dice, max(1, studies // 10), factor)
        yield f"--until settled {what}, {how}", f"after {pairs_run:.1f} pairs a case: {words(ended)} cases"


def _of_equal_arms(how: str, found: Equal) -> Iterator[tuple[str, str]]:
    yield f"false alarms of a study, {how}", f"{found.false_alarms:.1%}"
    yield f"coverage of 95 %, {how}", f"{found.coverage:.1%}"


FINDINGS: dict[str, Callable[[np.random.Generator], CaseComparison]] = {
    "1: 1.4 times as long with p = 0.15": partial(sometimes_slow, p=0.15),
    "1: 1.4 times as long with p = 0.3": partial(sometimes_slow, p=0.3),
    "2: mean + 4 %": lost_mean,
    "4: moods of 2 %, unpaired": moody,
    "5: 0.99 % longer": about_the_margin,
    "6: 10 of 16 processes fail": failing,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14, help="other draws, to be added to those of this one")
    values = parser.parse_args()
    for what, found in rows(values.studies, values.seed):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
