"""Finds out which differences make SLOW slow, round by round: whether there is an effect, which set is suspected,
whether fresh pairs prove it, what is left, and whether it is there again after a pause.

Its state depends on what it is told alone: rounds of a file that are told again come to the same.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Literal

from primbench import stats
from primbench.experiments.why import certificate, repetition
from primbench.experiments.why.certificate import Certificate, interval
from primbench.experiments.why.conclusion import Conclusion
from primbench.experiments.why.contrasts import Contrasts, reach
from primbench.experiments.why.designs import choose
from primbench.experiments.why.evidence import Evidence
from primbench.experiments.why.posterior import Posterior
from primbench.experiments.why.rounds import Round, Subset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.experiments.why.conclusion import Proof, Resolution
    from primbench.experiments.why.evidence import Row
    from primbench.experiments.why.rounds import Observation, Purpose, RatioInterval
    from primbench.stats import LogRatio

FAST: Subset = frozenset()
LOOKS = (3, 5, 8, 12)
"""Pairs of FAST and SLOW after which it is looked whether they differ, at an equal share of LEVEL each."""
LEVEL = 0.05
EQUAL = 1.5
"""Margins within which two places are said not to differ."""
LEFT = 0.5
"""Margins: what is proven leaves less than that."""
ENOUGH = 0.9
"""The probability from which on a set is put to the test."""
PERHAPS = 0.4
"""The same where no more rounds are left."""
MOST_ROUNDS = 10
"""Of a search."""
MOST_TESTS = 4
"""Of sets, in one search."""
MOST_PROOFS = 3
AT_ONCE = 3
"""Designs of a round of a search, beside FAST."""
PAIRS = 2
"""Of a round of a search."""


class Investigation:
    """Of two places with ``n`` differences.

    weights: how many times as likely as others each difference is a cause by what is known, above 0. margin: what the
    ratio of equally fast places may differ from 1. seed: of the random designs.
    """

    def __init__(self, n: int, *, seed: int = 0, margin: float = 0.02, weights: Sequence[float] | None = None) -> None:
        self.slow: Subset = frozenset(range(n))
        self.seed, self.margin, self.weights = seed, margin, list(weights) if weights is not None else [1.0] * n
        self.evidence = Evidence(n)
        self.proofs: list[Proof] = []
        self.refuted: list[Subset] = []
        self.stage: Purpose | None = "effect"
        self.testing: Subset = FAST
        self._effect: Literal["none", "some", "undecided"] = "undecided"
        self._pairs_to_decide: int | None = None
        self._next_round = self._next_pair = 0
        self._searched, self._tested = 0, list[Subset]()  # since the last proof: rounds, and sets
        self._posterior: Posterior | None = None

    @property
    def base(self) -> Subset:
        """All that is proven."""
        return FAST.union(*(proof.differences for proof in self.proofs))

    # --- what to measure

    def next(self) -> Round | None:
        """None once nothing is left to measure."""
        if self.stage == "search" and not (chosen := self._chosen()):
            self._finish()  # all subsets of few differences have been measured
        if self.stage is None:
            return None
        designs = [self.base, *chosen] if self.stage == "search" else self._fixed_designs()
        random.Random(f"{self.seed} order {self._next_round}").shuffle(designs)
        return Round(
            number=self._next_round,
            stage=self.stage,
            designs=tuple(designs),
            pairs=tuple(range(self._next_pair, self._next_pair + self._pairs())),
            testing=self.testing if self.stage == "certificate" else None,
            base=FAST if self.stage == "repeat" else self.base,
            after_pause=self.stage == "repeat" and not self._rows(),
        )

    def _chosen(self) -> list[Subset]:
        seed = f"{self.seed} designs {self._next_round}"
        return choose(self._believed(), self.evidence, count=AT_ONCE, pairs=PAIRS, seed=seed)

    def _fixed_designs(self) -> list[Subset]:
        if self.stage == "effect":
            return [self.base, self.slow]
        return repetition.designs(self.proofs, self.slow) if self.stage == "repeat" else self._certificate().designs()

    def _pairs(self) -> int:
        looks = {"effect": LOOKS, "certificate": certificate.LOOKS, "repeat": repetition.LOOKS}
        told = len(self._rows())
        return next((look - told for look in looks.get(self.stage or "", ()) if look > told), PAIRS)

    def _rows(self) -> list[Row]:
        """The pairs that the stage decides by."""
        if self.stage == "effect":
            return self.evidence.rows_with([self.base, self.slow])
        rounds = ((pair.round, pair.logs) for pair in self.evidence.pairs)
        is_tested = self.stage == "certificate"
        mine = [(told, logs) for told, logs in rounds if told.stage == self.stage]
        return [logs for told, logs in mine if not is_tested or told.testing == self.testing]

    def _certificate(self) -> Certificate:
        return Certificate(self.testing, self.base, self.slow, self.evidence.failed)

    # --- what came of it

    def tell(self, told: Round, observations: Iterable[Observation]) -> None:
        """Once a round, with all that was observed, be it fewer pairs than were asked for."""
        self.evidence.add(told, observations)
        self._next_round, self._next_pair = told.number + 1, (max(told.pairs) // 2 + 1) * 2
        self._posterior = None
        self.stage, self.testing = told.stage, told.testing or FAST
        if {self.base, self.slow} & self.evidence.failed.keys():
            self.stage = None
        elif told.stage == "effect":
            self._look_at_effect()
        elif told.stage == "certificate":
            self._look_at_certificate()
        elif told.stage == "repeat":
            self._look_at_repetition()
        else:
            self._searched += 1
            self._suspect()

    def _look_at_effect(self) -> None:
        self.stage = "effect"
        contrast = self._left()
        least, equal = (math.log1p(self.margin * times) for times in (LEFT if self.proofs else 1.0, EQUAL))
        low, high = reach(contrast, 1 - LEVEL / len(LOOKS))
        pairs = len(self._rows())
        if (low > 0 or high < 0) and abs(contrast.log) > least:
            self._effect, self._searched, self._tested = "some", 0, []
            self._suspect()
        elif -equal < low and high < equal:
            self._effect = "some" if self.proofs else "none"
            self._finish()
        elif pairs >= LOOKS[-1]:
            self._pairs_to_decide = _pairs_needed(contrast, pairs, EQUAL * self.margin)
            self._finish()

    def _left(self) -> LogRatio:
        """SLOW beside FAST with all that is proven."""
        designs = [self.base, self.slow]
        return Contrasts(self.evidence.rows_with(designs), designs).of([self.slow], [self.base])

    def _suspect(self) -> None:
        """Puts the likeliest set to the test where that is likely enough; ends where no more rounds are left."""
        is_last = self._searched >= MOST_ROUNDS
        likeliest, probability = next(iter(self.suspects()), (FAST, 0.0))
        self.stage = "search"
        if len(self._tested) < MOST_TESTS and likeliest and probability >= (PERHAPS if is_last else ENOUGH):
            self.testing, self.stage = likeliest, "certificate"
            self._tested.append(likeliest)
            if not self._certificate().can_run():
                self._suspect()
        elif is_last or len(self._tested) == MOST_TESTS:
            self._finish()

    def _believed(self) -> Posterior:
        if self._posterior is None:
            rows = [pair.logs for pair in self.evidence.pairs]
            self._posterior = Posterior(rows, self.base, self.slow, self.weights, self.margin)
        return self._posterior

    def suspects(self) -> list[tuple[Subset, float]]:
        """Sets that were not put to the test yet, each with its probability among them, the likeliest first."""
        if self._effect != "some" or self.base == self.slow:
            return []
        sets = [(causes, share) for causes, share in self._believed().sets() if causes not in self._tested]
        total = sum(share for _, share in sets)
        return [(causes, share / total) for causes, share in sets]

    def _look_at_certificate(self) -> None:
        rows = self._rows()
        look = sum(len(rows) >= each for each in certificate.LOOKS) - 1
        before = math.prod(proof.harms.ratio for proof in self.proofs)
        judgement = self._certificate().judge(rows, look, self.margin, before)
        if judgement.proof is not None:
            self._prove(judgement.proof)
        elif judgement.state == "refuted":
            self.refuted.append(self.testing)
            self._suspect()
        elif judgement.state == "open":
            self._pairs_to_decide = judgement.pairs_to_decide
            causes, share = self._believed().sets()[0]
            if causes == self.testing and share >= ENOUGH:  # nothing but more pairs would tell
                self._finish()
            else:
                self._suspect()

    def _prove(self, proof: Proof) -> None:
        self.proofs.append(proof)
        self._posterior = None
        is_all = self.base == self.slow or len(self.proofs) == MOST_PROOFS
        if is_all or abs(self._left().log) < math.log1p(LEFT * self.margin):
            self._finish()
        else:
            self._look_at_effect()

    def _finish(self) -> None:
        self.stage = "repeat" if self.proofs else None

    def _look_at_repetition(self) -> None:
        found = repetition.repeated(self.proofs, self.slow, self._rows())
        if all(proof.repeated is not None for proof in found):
            self.proofs, self.stage = found, None

    # --- what is known

    def conclude(self) -> Conclusion:
        """At any time; what a search that was broken off has found so far, too."""
        lasting = [proof for proof in self.proofs if proof.repeated is not False]
        passed = [proof for proof in self.proofs if proof.repeated is False]
        unexplained = self._contrast(FAST.union(*(proof.differences for proof in lasting))) if lasting else None
        outcome = self._outcome(lasting, unexplained)
        effect = self._contrast(FAST, fresh=bool(self.proofs))
        return Conclusion(
            outcome=outcome,
            effect=_interval(effect),
            proofs=tuple(lasting),
            unexplained=_interval(unexplained),
            passed=tuple(passed),
            refuted=tuple(self.refuted),
            suspects=tuple(self.suspects()[:5]) if outcome in ("not found", "partly explained") else (),
            failed=tuple(self.evidence.failed.items()),
            pairs=len(self.evidence.pairs),
            places=len(self.evidence.ran | self.evidence.failed.keys()),
            scatter=self._scatter(),
            pairs_to_decide=self._pairs_to_decide,
            final=self.stage is None,
        )

    def _outcome(self, lasting: Sequence[Proof], unexplained: LogRatio | None) -> Resolution:
        if {FAST, self.slow} & self.evidence.failed.keys():
            return "failed"
        if not lasting:
            outcomes: dict[str, Resolution] = {"none": "no difference", "some": "not found", "undecided": "undecided"}
            return outcomes[self._effect]
        low, high = reach(unexplained, 1 - LEVEL) if unexplained else (0.0, 0.0)
        is_left = (low > 0 or high < 0) and unexplained and abs(unexplained.log) > math.log1p(LEFT * self.margin)
        return "partly explained" if is_left else "explained"

    def _contrast(self, base: Subset, *, fresh: bool = True) -> LogRatio | None:
        """SLOW beside these differences in FAST; fresh: by pairs that were measured after a set was suspected alone."""
        if base == self.slow:
            return None
        rows = self.evidence.rows_with([base, self.slow], stages=("certificate", "repeat") if fresh else ())
        return Contrasts(rows, [base, self.slow]).of([self.slow], [base]) if rows else None

    def _scatter(self) -> float | None:
        rounds: dict[int, list[Row]] = {}
        for pair in self.evidence.pairs:
            rounds.setdefault(pair.round.number, []).append(pair.logs)
        found = [Contrasts(rows, list(rows[0])) for rows in rounds.values()]
        known = [(each.variance * each.freedom, each.freedom) for each in found if each.scatter is not None]
        return math.sqrt(sum(total for total, _ in known) / sum(freedom for _, freedom in known)) if known else None


def _interval(contrast: LogRatio | None) -> RatioInterval | None:
    return None if contrast is None else interval(contrast)


def _pairs_needed(contrast: LogRatio, pairs: int, margin: float) -> int | None:
    """That would tell on which side of the margin the ratio is, of which so many pairs told."""
    return None if contrast.error is None else stats.pairs_needed(contrast.error * pairs**0.5, margin, contrast.log)
