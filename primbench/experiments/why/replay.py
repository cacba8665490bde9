"""Whether what was proven is there again, by pairs that are measured anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.errors import InvalidRequest
from primbench.experiments.why.evidence import Evidence
from primbench.experiments.why.repetition import LOOKS, designs, repeated
from primbench.experiments.why.rounds import Round

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.experiments.why.conclusion import Proof
    from primbench.experiments.why.inquiry import Inquiry
    from primbench.experiments.why.measuring import Measuring


def replayed(found: Inquiry, measuring: Measuring) -> Inquiry:
    """The same with what became of each proof in pairs of the fast place, it with each set, and the slow one without.

    Raises InvalidRequest where nothing is proven, or something is left to ask.
    """
    if not found.conclusion.final or not found.conclusion.proofs:
        reason = "nothing is proven" if found.conclusion.final else "something is left to ask: go on with it first"
        raise InvalidRequest(f"{found.file}: {reason}: nothing to replay")
    proofs = [replace(each, repeated=None) for each in found.conclusion.proofs]
    told = _told(proofs, measuring)
    return replace(found, replayed=[each.repeated for each in told])


def _told(proofs: Sequence[Proof], measuring: Measuring) -> Sequence[Proof]:
    slow, told = measuring.mixtures.all, proofs
    evidence = Evidence(len(slow))
    for look in LOOKS:
        first = measuring.next_pair
        pairs = tuple(range(first, first + look - len(evidence.pairs)))
        asked = Round(number=1, stage="repeat", designs=tuple(designs(proofs, slow)), pairs=pairs)
        evidence.add(asked, measuring.observe(asked))
        if len(evidence.pairs) < look:
            return told
        told = repeated(proofs, slow, [pair.logs for pair in evidence.pairs])
        if all(each.repeated is not None for each in told):
            return told
    return told
