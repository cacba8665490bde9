"""Forest plots of more cases than a page has room for."""

from __future__ import annotations

from primbench.compare.comparison import ArmComparison, CaseComparison
from primbench.compare.ratio import Estimate
from primbench.report.figures.forest import MOST_LISTED, MOST_ROWS, forest
from primbench.spec.case import Case


def arm(cases: int) -> ArmComparison:
    """Each case further from the baseline than the one before."""
    found = [
        CaseComparison(
            case=Case(primitive="gemm", parameters={"m": 1, "n": 1, "k": number}, backend="numpy", device="cpu"),
            estimates=[
                Estimate(
                    metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1.0, arm_s=1 + number / 1e4,
                    ratio=1 + number / 1e4, margin=0.02,
                )
            ],
            verdict="inconclusive",
            decided_by="batch_s",
        )
        for number in range(1, cases + 1)
    ]  # fmt: skip
    return ArmComparison(name="other", arm=None, effect=None, differences={}, cases=found, mean=None)


def test_of_many_cases_those_that_differ_most_are_drawn_and_all_are_listed() -> None:
    figure = forest(arm(MOST_LISTED), "host")
    assert figure is not None
    assert f"Drawn are the {MOST_ROWS} of {MOST_LISTED} that differ most." in figure.words
    assert MOST_LISTED == len(figure.numbers.columns[0].values)


def test_of_more_only_the_numbers_of_those_that_are_drawn_are_listed() -> None:
    figure = forest(arm(MOST_LISTED + 1), "host")
    assert figure is not None
    assert "and so are their numbers; `primbench compare --csv FILE` writes all." in figure.words
    cases = figure.numbers.columns[0].values
    assert (MOST_ROWS, f"gemm m=1 n=1 k={MOST_LISTED + 1} float32") == (len(cases), cases[0])
