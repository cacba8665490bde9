"""How long places between a fast and a slow one are measured for."""

from __future__ import annotations

import math
import time

import pytest
from msgspec.structs import replace

from primbench.experiments.why import steps
from primbench.experiments.why.conclusion import Proof
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.looks import OF_A_QUOTA_S, cases_of
from primbench.experiments.why.measuring import Measuring
from primbench.experiments.why.rounds import RatioInterval
from primbench.registry import build
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.study import IN_TURN, Study


@pytest.mark.parametrize(("slow", "lasting_s"), [("host:cpus=0.5", OF_A_QUOTA_S), ("host:umask=0077", (0.05, 0.1))])
def test_a_quota_has_time_to_stop_a_process(slow: str, lasting_s: tuple[float, float]) -> None:
    method = Method(min_time_s=0.05, max_time_s=0.1)
    case = Case(primitive="gemm", parameters={"m": 4, "n": 4, "k": 4}, backend="numpy", device="cpu", method=method)
    (found,) = cases_of(Study(arms=[parse_arm("host"), parse_arm(slow)], cases=[case], pairs=2, seed=0))
    assert (found.method.min_time_s, found.method.max_time_s) == lasting_s


def _step(**sets: int) -> list[Case]:
    """Products as a step and its parts: the set of each, and what it is made of on both sides."""
    method = Method(unit="process", min_time_s=1e-3, max_time_s=2e-3)
    return [
        Case(
            primitive="gemm", parameters=build("gemm", {"m": m, "n": m, "k": m}).parameters(), backend="numpy",
            device="cpu", method=method, labels={"set": name.rstrip("_"), "count": "2", "label": name},
        )
        for name, m in sets.items()
    ]  # fmt: skip


def test_a_step_is_asked_about_as_a_whole_and_each_part_of_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is proven, which is said here."""
    monkeypatch.setattr(steps, "PROCESSES", range(100_000, 100_002))
    arms = [parse_arm("host"), parse_arm("host:umask=0077")]
    study = Study(arms=arms, cases=_step(parts=4, whole=8), pairs=2, seed=0, pairing=IN_TURN, why=True)
    mixtures, found = (
        Mixtures(*arms),
        Results(header=replace(header(["test"], {}), study=study), workers=[], records=[]),
    )
    measuring = Measuring(
        study=study, mixtures=mixtures, found=found, writer=None, timeout_s=60.0, ends_s=time.monotonic() + 100
    )
    assert measuring.asked.case.labels["set"] == "whole"
    ratio = RatioInterval(ratio=1.5, low=1.4, high=1.6)
    every = mixtures.all
    proof = Proof(differences=every, base=frozenset(), harms=ratio, heals=ratio, contributions=(), share=None, pairs=4)
    (told,) = measuring.steps([proof])
    assert told is not None
    assert (["gemm", "unexplained"], 2) == ([each.name for each in told.changes], told.pairs)
    before = len(found.records)
    assert measuring.steps([proof])
    assert (before, []) == (len(found.records), measuring.steps([]))


def test_of_a_step_that_is_no_case_the_part_is_asked_about_that_takes_more_seconds_longer() -> None:
    part, whole = _step(parts=4, whole=8)
    assert ([], [whole]) == (steps.wholes([part]), steps.wholes([part, whole]))
    assert math.isclose(steps.weight(part, [1.0, 3.0], math.log(1.5)), 2 * 2 * 0.5)
    assert steps.weight(whole, [1.0], 0.25) == 0.25
