"""Finds out which differences make SLOW slow, round by round: whether there is an effect, which set is suspected,
whether fresh pairs prove it, what is left, and whether it is there again after a pause.

Its state depends on what it is told alone: rounds of a file that are told again come to the same.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Literal

from primbench.experiments.why import certificate, effect, repetition
from primbench.experiments.why.certificate import Certificate, interval
from primbench.experiments.why.conclusion import Conclusion
from primbench.experiments.why.contrasts import Contrasts, with_offsets
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
AT_ONCE = 5
"""Subsets of a round of a search, beside FAST: of one pair. Of as many processes, three in two pairs tell less: of 50
made places of three kinds each, the median took 54, 76 and 82 processes in place of 46, 66 and 68."""
PAIRS = 1
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
        self._is_exhausted = False
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
        if self.stage == "repeat":
            return repetition.designs(self._not_repeated(), self.slow)
        return self._certificate().designs()

    def _pairs(self) -> int:
        looks = {"effect": effect.LOOKS, "certificate": certificate.LOOKS, "repeat": repetition.LOOKS}
        told = len(self._rows())
        return next((look - told for look in looks.get(self.stage or "", ()) if look > told), PAIRS)

    def _rows(self) -> list[Row]:
        """The pairs that the stage decides by: of the effect all with FAST and SLOW, else those of its last rounds."""
        if self.stage == "effect":
            return self.evidence.rows_with([self.base, self.slow])
        mine = itertools.takewhile(
            lambda pair: (pair.round.stage, pair.round.testing or FAST) == (self.stage, self.testing),
            reversed(self.evidence.pairs),
        )
        return [pair.logs for pair in mine][::-1]

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
        ratio, pairs = self._left(), len(self._rows())
        seen = effect.look(ratio, pairs, self.margin, self._least())
        if not self.proofs and seen != "more":
            self._effect = seen
        if seen == "some":
            self._begin_search()
        elif seen != "more":
            self._pairs_to_decide = effect.pairs_needed(ratio, pairs, self.margin) if seen == "undecided" else None
            self._finish()

    def _least(self) -> float:
        """The ratio of SLOW beside what is proven from which on there is something to look for."""
        return 1 + self.margin * (LEFT if self.proofs else 1.0)

    def _begin_search(self) -> None:
        self._effect, self._searched, self._tested = "some", 0, []
        self._pairs_to_decide = None
        self._suspect()

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
            self._put_to_test(likeliest)
        elif is_last or len(self._tested) == MOST_TESTS:
            self._finish()

    def _put_to_test(self, causes: Subset) -> None:
        """With what it needs, where it does not run by itself; where that is not known, further rounds tell of it."""
        self.testing = self.evidence.with_needs(causes, self.base, self.slow)
        if self._certificate().can_run():
            self.stage = "certificate"
            self._tested.append(causes)
        elif self._searched >= MOST_ROUNDS:
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
        if not self._certificate().can_run():
            self._tested.pop()
            self._suspect()
            return
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
            self._pairs_to_decide = len(self.evidence.pairs) + (judgement.more_pairs or 0)
            causes, share = self._believed().sets()[0]
            if causes == self.testing and share >= ENOUGH:  # nothing but more pairs would tell
                self._finish()
            else:
                self._pairs_to_decide = None
                self._suspect()

    def _prove(self, proof: Proof) -> None:
        self.proofs.append(proof)
        self._posterior = None
        if self._may_be_more() and effect.is_there(self._left(), self._least()):
            self._begin_search()
        else:  # its repetition says more of what is left
            self.stage, self.testing = "repeat", FAST

    def _may_be_more(self) -> bool:
        is_all = self.base == self.slow or len(self.proofs) == MOST_PROOFS
        return not is_all and abs(self._left().log) > math.log(self._least())

    def _finish(self) -> None:
        """Where nothing more is looked for; what was proven is still repeated."""
        self._is_exhausted = True
        self.stage, self.testing = "repeat" if self._not_repeated() else None, FAST

    def _not_repeated(self) -> list[Proof]:
        return [proof for proof in self.proofs if proof.repeated is None]

    def _look_at_repetition(self) -> None:
        found = repetition.repeated(self._not_repeated(), self.slow, self._rows())
        if any(proof.repeated is None for proof in found):
            return
        self.proofs[len(self.proofs) - len(found) :] = found
        if self._is_exhausted or any(proof.repeated is False for proof in found) or not self._may_be_more():
            self.stage = None
        else:
            self._look_at_effect()

    # --- what is known

    def conclude(self) -> Conclusion:
        """At any time; what a search that was broken off has found so far, too."""
        lasting = [proof for proof in self.proofs if proof.repeated is not False]
        passed = [proof for proof in self.proofs if proof.repeated is False]
        left = self._contrast(FAST.union(*(proof.differences for proof in lasting))) if lasting else None
        unexplained = None if left is None else with_offsets(left)
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
        is_left = unexplained is not None and abs(unexplained.log) > math.log1p(LEFT * self.margin)
        return "partly explained" if is_left and unexplained and effect.is_certain(unexplained) else "explained"

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
