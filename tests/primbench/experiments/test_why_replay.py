"""Whether what was proven is there again. Times are made, and no process runs: no place is slower on demand."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from primbench.errors import InvalidRequest
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import Inquiry
from primbench.experiments.why.investigation import Investigation
from primbench.experiments.why.measuring import Measuring
from primbench.experiments.why.replay import replayed
from primbench.experiments.why.rounds import Observation, Round
from primbench.report.why import document
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case

from ..report.exports import text_of

text = text_of(document)


MIXTURES = Mixtures(parse_arm("host"), parse_arm("host:nofile=4096,umask=0077"))


class Made:
    """In place of Measuring: places with the first difference take ``times`` as long, in so many pairs."""

    def __init__(self, times: float, pairs: int = 100) -> None:
        self.mixtures, self.next_pair, self.times, self.left = MIXTURES, 20, times, pairs

    def observe(self, asked: Round) -> list[Observation]:
        assert asked.pairs[0] == self.next_pair
        pairs = asked.pairs[: self.left]
        self.left, self.next_pair = self.left - len(pairs), asked.pairs[-1] + 1
        return [
            Observation(pair=pair, design=design, value_s=self.times if 0 in design else 1.0)
            for pair in pairs
            for design in asked.designs
        ]


@pytest.fixture(scope="module")
def found() -> Inquiry:
    investigation, made = Investigation(2), Made(1.5)
    while (asked := investigation.next()) is not None:
        made.next_pair = asked.pairs[0]
        investigation.tell(asked, made.observe(asked))
    return Inquiry(
        asked=(MIXTURES.fast, MIXTURES.slow),
        fast=MIXTURES.fast,
        slow=MIXTURES.slow,
        case=Case(primitive="gemm", parameters={"m": 4, "n": 4, "k": 4}, backend="numpy", device="cpu"),
        metric="batch_s",
        ingredients=[each.words for each in MIXTURES.ingredients],
        conclusion=investigation.conclude(),
        took_s=1.0,
        file="why.jsonl",
    )


@pytest.mark.parametrize(
    ("times", "pairs", "same", "words"),
    [
        (1.5, 100, True, "Replayed: the same."),
        (1.0, 100, False, "Replayed: nofile=4096 not there any more."),
        (1.5, 2, None, "Replayed: nofile=4096 not told by the pairs that were run."),
    ],
)
def test_fresh_pairs_say_whether_it_is_there_again(
    found: Inquiry, times: float, pairs: int, same: bool | None, words: str
) -> None:
    again = replayed(found, cast("Measuring", Made(times, pairs)))
    assert again.replayed == [same]
    assert words in text(again)
    assert "replay: primbench why --resume why.jsonl --replay\n" in text(found)


def test_what_is_not_proven_is_not_replayed(found: Inquiry) -> None:
    nothing = replace(found, conclusion=replace(found.conclusion, proofs=()))
    with pytest.raises(InvalidRequest, match="nothing is proven"):
        replayed(nothing, cast("Measuring", Made(1.0)))
    unfinished = replace(found, conclusion=replace(found.conclusion, final=False))
    with pytest.raises(InvalidRequest, match="go on with it first"):
        replayed(unfinished, cast("Measuring", Made(1.0)))
