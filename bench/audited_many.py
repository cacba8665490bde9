"""Studies of many cases in few pairs, whose scatter is borrowed: how often their verdicts are wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from bench.audited_studies import GEMM, SHAPE, Process, Study, judged
from primbench.compare.comparison import CaseComparison
from primbench.compare.matching import WHILE_LOOKING, Matching, paired
from primbench.compare.ratio import WITHIN_MARGIN
from primbench.compare.settled import is_settled
from primbench.compare.sides import identity
from primbench.registry import build
from primbench.spec.case import Case

LOOKS = range(5, 41)  # the pairs after which a study may end by itself
PAIRED = Matching(paired)


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
