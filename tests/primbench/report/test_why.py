"""What is printed of an inquiry, whose times are made: no process runs."""

from __future__ import annotations

import shlex

from primbench.experiments.why.frame import framed
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import Inquiry
from primbench.experiments.why.investigation import Investigation
from primbench.experiments.why.rounds import Observation
from primbench.report.why import text
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case


def test_places_in_control_groups_of_their_own_can_be_typed_again() -> None:
    fast, slow = parse_arm("host", known()), parse_arm("host:cpus=0.5,umask=0077", known())
    frame = framed(fast, slow, lambda _: None)
    investigation = Investigation(2)
    while (asked := investigation.next()) is not None:
        seen = [
            Observation(pair=pair, design=design, value_s=1.5 if 0 in design else 1.0)
            for pair in asked.pairs
            for design in asked.designs
        ]
        investigation.tell(asked, seen)
    case = Case(primitive="gemm", parameters={"m": 4, "n": 4, "k": 4}, backend="numpy", device="cpu")
    found = Inquiry(
        asked=(fast, slow),
        fast=frame.base,
        slow=frame.whole,
        case=case,
        metric="batch_s",
        ingredients=[each.words for each in Mixtures(frame.base, frame.whole).ingredients],
        conclusion=investigation.conclude(),
        took_s=1.0,
    )
    (proof,) = (line for line in text(found).splitlines() if line.startswith("proof: "))
    words = shlex.split(proof)
    arms = [words[number + 1] for number, each in enumerate(words) if each == "--arm"]
    assert all(parse_arm(each, known()).cgroup == "private" for each in arms)
    assert len(arms) == 4
