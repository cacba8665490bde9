"""What docs/method.md says of the rules is what they are."""

from __future__ import annotations

import re
from pathlib import Path

from primbench.compare.criteria import OF_HOST
from primbench.compare.ratio import FALSE_DISCOVERIES, FALSE_DISCOVERIES_BESIDE, FAR
from primbench.registry import primitives, problem_class
from primbench.results.metrics import FEWEST_BEYOND

METHOD = " ".join((Path(__file__).parents[3] / "docs/method.md").read_text().split())


def test_the_margins_are_those_of_the_primitives() -> None:
    """Of every primitive, in the row of its margin."""
    rows = dict(re.findall(r"\| (\d+) % \| ((?:`\w+` ?)+)", METHOD))
    said = {name: int(percent) / 100 for percent, names in rows.items() for name in re.findall(r"\w+", names)}
    assert {name: problem_class(name).margin for name in primitives()} == said
    assert f"such as enqueue and wall beside a GPU, have {OF_HOST:.0%}".replace("%", " %") in METHOD


def test_families_tails_and_means_are_those_of_the_code() -> None:
    judging, others = (f"with {rate:.0%}".replace("%", " %") for rate in (FALSE_DISCOVERIES, FALSE_DISCOVERIES_BESIDE))
    assert f"the mean of the same samples), {judging}, and all others, {others}" in METHOD
    assert "each process has ten samples beyond them, 1000 for a p99" in METHOD
    assert 1000 == round(FEWEST_BEYOND / 0.01)
    assert f"**A mean that is off** by more than {FAR:.0%}".replace("%", " %") in METHOD
