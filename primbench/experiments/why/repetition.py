"""Whether what was proven is there again after a pause: a certificate says "here and now"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.experiments.why.contrasts import Contrasts, reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.experiments.why.conclusion import Proof
    from primbench.experiments.why.evidence import Row
    from primbench.experiments.why.rounds import Subset
    from primbench.stats import LogRatio

LOOKS = (3, 5, 8)
"""Pairs after which it is looked, at an equal share of LEVEL each."""
LEVEL = 0.05
LEAST = 0.5
"""Of what was proven, in logarithms: what is certainly less is gone, and at the last look what is less at all."""


def designs(proofs: Sequence[Proof], slow: Subset) -> list[Subset]:
    """FAST with one proven set after the other, and SLOW without each."""
    every = [slow, *(place for proof in proofs for place in (*_places(proof, slow)[0], _places(proof, slow)[1][1]))]
    return list(dict.fromkeys(every))


def _places(proof: Proof, slow: Subset) -> tuple[tuple[Subset, Subset], tuple[Subset, Subset]]:
    """With the set and without it: in FAST, in SLOW."""
    return (proof.base, proof.base | proof.differences), (slow, slow - proof.differences)


def repeated(proofs: Sequence[Proof], slow: Subset, rows: Sequence[Row]) -> list[Proof]:
    """The proofs with whether each is there again; None while more pairs are needed."""
    contrasts = Contrasts(rows, designs(proofs, slow))
    return [replace(proof, repeated=_is_there(proof, _both(proof, slow, contrasts), len(rows))) for proof in proofs]


def _both(proof: Proof, slow: Subset, contrasts: Contrasts) -> LogRatio:
    """The mean of both directions."""
    (without, with_it), (also_with, also_without) = _places(proof, slow)
    return contrasts.of([with_it, also_with], [without, also_without])


def _is_there(proof: Proof, contrast: LogRatio, pairs: int) -> bool | None:
    proven = (math.log(proof.harms.ratio) + math.log(proof.heals.ratio)) / 2
    sign = 1 if proven > 0 else -1
    low, high = sorted(sign * end for end in reach(contrast, 1 - LEVEL / len(LOOKS)))
    is_half = sign * contrast.log > LEAST * abs(proven)
    if low > 0 and is_half:
        return True
    if high < LEAST * abs(proven):
        return False
    return is_half if pairs >= LOOKS[-1] else None
