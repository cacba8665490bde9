"""The answer of a comparison in one sentence."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Explanation
from primbench.compare.judgement import SINGLE, TOO_BUSY, decided
from primbench.compare.ratio import Estimate, Verdict
from primbench.registry import build
from primbench.report import comparison as report
from primbench.report.document import Note
from primbench.report.formats import known
from primbench.report.headline import headline, tone
from primbench.spec.case import Case

from .exports import text_of

SLOWER = Estimate(
    metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1e-3, arm_s=1.12e-3, ratio=1.12,
    interval=(1.09, 1.15), interval90=(1.095, 1.145), margin=0.01, q=0.001, outcome="slower",
)  # fmt: skip
FASTER = replace(SLOWER, ratio=0.9, interval=(0.88, 0.92), outcome="faster")
EQUIVALENT = replace(SLOWER, ratio=1.0, interval=(0.997, 1.003), is_equivalent=True, outcome="equivalent")
OPEN = replace(SLOWER, ratio=1.01, interval=(0.98, 1.04), outcome="inconclusive", pairs_needed=22)
LAUNCHES = Explanation(parts=["launch"], evidence=[], causes=["the CPU quota: 0.5 of 2"], likely="the CPU quota")
REFUSED = Explanation(parts=[], evidence=[], causes=["a filter"], likely="a filter")


def case(estimate: Estimate | None, k: int = 16, **changes: Any) -> CaseComparison:
    parameters = build("gemm", {"m": 64, "n": 32, "k": k}).parameters()
    of = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    return decided(CaseComparison(case=of, estimates=[estimate] if estimate else [], **changes))


def arm(*cases: CaseComparison, name: str = "podman") -> ArmComparison:
    return ArmComparison(name=name, arm=None, effect=None, differences={}, mean=None, cases=list(cases))


def comparison(*cases: CaseComparison, arms: list[ArmComparison] | None = None) -> Comparison:
    return Comparison(baseline="host", paired=True, arms=arms or [arm(*cases)])


def answer(*cases: CaseComparison, arms: list[ArmComparison] | None = None) -> str:
    return headline(comparison(*cases, arms=arms))


NAME = "gemm m=64 n=32 k=16 float32 on numpy cpu"


def answer_of(found: Comparison) -> Note:
    """With which its document begins."""
    answer = report.document(found).answer
    assert answer
    return answer


def test_what_is_slower_by_how_much_and_why() -> None:
    slower = case(SLOWER, explanation=LAUNCHES)
    assert f"Slower in podman: launches, by 12.0% [9.0, 15.0] in {NAME}; likely the CPU quota." == answer(slower)
    assert f"Slower in podman: gemm, by 12.0% [9.0, 15.0] in {NAME}." == answer(case(SLOWER))
    twice = replace(SLOWER, ratio=4.9, interval=(4.5, 5.25))
    assert f"Slower in podman: gemm, by a factor of 4.900 [4.500, 5.250] in {NAME}." == answer(case(twice))


def test_of_several_the_worst_is_named_and_each_arm_has_a_clause() -> None:
    worst = replace(SLOWER, ratio=1.2, interval=(1.1, 1.3))
    kernels = replace(LAUNCHES, parts=["kernel"], likely=None)
    cases = [case(SLOWER, 17, explanation=LAUNCHES), case(worst, explanation=kernels), case(EQUIVALENT, 18)]
    podman = f"lower in podman: launches and kernels in 2 of 3 cases, the most by 20.0% [10.0, 30.0] in {NAME}"
    assert f"S{podman}." == answer(*cases)
    docker = f"Slower in docker: gemm, by 12.0% [9.0, 15.0] in {NAME}"
    assert f"{docker}; s{podman}." == answer(arms=[arm(case(SLOWER), name="docker"), arm(*cases)])


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([case(EQUIVALENT)], "Nothing is slower, within a margin of 1.0%."),
        (
            [case(EQUIVALENT), case(FASTER), case(replace(EQUIVALENT, margin=0.05, outcome="different-but-small"))],
            "Nothing is slower in any of 3 cases, within margins of 1.0% to 5.0%; 1 of 3 cases faster.",
        ),
        (
            [case(EQUIVALENT), case(replace(EQUIVALENT, outcome="equivalent-at-full-speed"))],
            "Nothing is shown to be slower; 1 of 2 cases told only at full CPU speed.",
        ),
        (
            [case(EQUIVALENT), case(replace(EQUIVALENT, outcome="equivalent-in-these-runs"))],
            "Nothing is slower in any of 2 cases, within a margin of 1.0%; 1 of 2 cases told only of these runs.",
        ),
        (
            [case(EQUIVALENT), case(replace(EQUIVALENT, outcome="different-about-the-margin"))],
            "Nothing is shown to be slower; 1 of 2 cases different, about the margin.",
        ),
        (
            [case(EQUIVALENT), case(OPEN)],
            "Nothing is shown to be slower; 1 of 2 cases undecided, about 14 more pairs would tell.",
        ),
        (
            [case(EQUIVALENT), case(replace(OPEN, pairs_needed=300))],
            "Nothing is shown to be slower; 1 of 2 cases undecided, more than 200 more pairs would tell.",
        ),
        (
            [case(FASTER), case(OPEN), case(replace(OPEN, pairs_needed=None))],
            "Nothing is shown to be slower; 1 of 3 cases faster; 2 of 3 cases undecided, about 14 more pairs would "
            "tell 1 of them.",
        ),
        ([case(OPEN)], "Nothing is told yet; 1 of 1 case undecided, about 14 more pairs would tell."),
        (
            [case(replace(OPEN, pairs_needed=9))],
            "Nothing is told yet; 1 of 1 case undecided, about 1 more pair would tell.",
        ),
        (
            [case(EQUIVALENT), case(replace(OPEN, pairs_needed=None, is_too_busy=True, reason=TOO_BUSY))],
            "Nothing is shown to be slower; 1 of 2 cases undecided: too busy to tell.",
        ),
        ([case(EQUIVALENT, fails_more="podman")], "Fails more often in podman: 1 of 1 case."),
        (
            [case(EQUIVALENT, fails_more="podman", explanation=replace(REFUSED, causes=[], likely=None))],
            "Fails more often in podman: 1 of 1 case.",
        ),
        (
            [case(EQUIVALENT), case(None, explanation=REFUSED)],
            "Nothing is shown to be slower; cannot be compared: 1 of 2 cases; likely a filter.",
        ),
        ([case(EQUIVALENT), case(None, reason="died")], "Nothing is shown to be slower; 1 of 2 cases not compared."),
        ([case(None, reason="died")], "Nothing was compared."),
        ([], "Nothing was compared."),
    ],
)
def test_where_nothing_is_slower(cases: list[CaseComparison], words: str) -> None:
    assert words == answer(*cases)


def test_an_arm_that_could_not_run_is_named_and_counts() -> None:
    gone = arm(case(None, reason="runc skipped: not installed"), name="runc")
    assert "Nothing is shown to be slower; runc not compared." == answer(arms=[arm(case(EQUIVALENT)), gone])
    assert (
        "Nothing is shown to be slower; 1 of 3 cases undecided, about 14 more pairs would tell; runc not compared."
        == (answer(arms=[arm(case(EQUIVALENT), case(OPEN)), gone]))
    )


@pytest.mark.parametrize("other", [case(EQUIVALENT), case(FASTER), case(OPEN), case(None), case(SLOWER)])
@pytest.mark.parametrize("outcome", get_args(Verdict))
def test_it_is_green_where_it_is_shown_of_every_case_that_it_is_not_slower(
    outcome: Verdict, other: CaseComparison
) -> None:
    found = comparison(case(replace(OPEN, outcome=outcome)), other)
    shown = {"equivalent", "equivalent-in-these-runs", "different-but-small", "faster"}
    expected = (
        "worse" if "slower" in (outcome, other.verdict) else "fine" if {outcome, other.verdict} <= shown else "open"
    )
    assert expected == tone(found) == answer_of(found).tone
    assert (expected == "fine") == headline(found).startswith("Nothing is slower")
    assert (expected == "worse") == headline(found).startswith("Slower in podman")


def test_of_samples_that_are_all_longer_no_more_is_said_than_is_shown() -> None:
    """Each of 11 is 3 % longer, none for certain, and one is equivalent."""
    longer = replace(OPEN, ratio=1.03, interval=(0.99, 1.07))
    found = comparison(*(case(longer, k) for k in range(17, 28)), case(EQUIVALENT))
    assert "Nothing is shown to be slower; 11 of 12 cases undecided, about 14 more pairs would tell." == headline(found)
    assert (headline(found), "open") == (answer_of(found).words, answer_of(found).tone)


def test_what_fails_more_often_is_worse() -> None:
    assert "worse" == tone(comparison(case(EQUIVALENT, fails_more="podman")))


def test_one_process_a_side_is_the_answer() -> None:
    found = comparison(case(replace(OPEN, interval=None, interval90=None, pairs_needed=None, reason=SINGLE)))
    assert headline(found).startswith("ONE PROCESS A SIDE CANNOT TELL in 1 of 1 cases, ")
    assert 1 == text_of(report.document)(found).count("ONE PROCESS")


def test_it_stands_first_in_every_format_that_is_read() -> None:
    found = comparison(case(EQUIVALENT))
    for written in (text_of(report.document)(found), known()["markdown"].write(report.document(found))):
        assert headline(found) == written.splitlines()[0]
    document = json.loads(known()["json"].write(report.document(found)))
    assert ["headline", "baseline"] == list(document)[:2]
    assert headline(found) == document["headline"]
