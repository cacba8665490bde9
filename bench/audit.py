"""How often verdicts are wrong, and how much they find, by the rules themselves.

Promised by the table of verdicts in docs/method.md. Processes that were recorded, in suites/reference/studies and in
tests/primbench/fixtures/same-host.json, are relabelled at random within their pairs: then all arms are one place for
certain, and every drift is kept. Made ones have the effect of which the verdict is to be told. Seeded. CI asserts the
same of fewer studies: `tests/primbench/compare/test_audit.py`. Takes three minutes; --studies 2000, half an hour.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.audited_many import LOOKS, MANY, PAIRED, Many, of_many, settled_many
from bench.audited_studies import GEMM, LAUNCH, Process, Study, judged, launches, relabelled, same_host, side
from primbench.compare.comparison import CaseComparison
from primbench.compare.matching import WHILE_LOOKING, Matching, paired, unpaired
from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.settled import is_settled
from primbench.compare.sides import identity
from primbench.compare.verdicts import verdicts
from primbench.spec.case import Case


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
