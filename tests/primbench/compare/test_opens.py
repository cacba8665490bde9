"""What opening a file takes as a cause: where all workers of one place say so, and as much as a call opens files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
US = 1e-6
SMALL = ("files", {"bytes": 4096, "what": "small", "files": 200})
LARGE = ("files", {"bytes": 2**24, "what": "read"})
USUAL = [3.3, 3.3, 3.4, 3.3, 4.5, 3.3, 4.2, 3.3]  # as was seen, of workers beside load
SANDBOX = [6.2, 4.8, 5.0, 4.8, 4.8, 5.7, 4.8, 4.8]  # by Landlock
OPENING = "opening a file takes 4.80 us in {slow}, 3.30 us in {usual}: a sandbox such as Landlock"


@pytest.fixture
def causes(made_study: MadeStudy) -> Callable[..., list[str]]:
    """``causes(what, ratio, one, other)``: of a case that takes 2 ms in one; what opening took there and in other.
    call_s: what a system call took.
    """

    def told(
        what: tuple[str, dict[str, Any]], ratio: float, one: Sequence[float], other: Sequence[float],
        call_s: float | None = HERE.confinement.system_call_s,
    ) -> list[str]:  # fmt: skip
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 2e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            return Measurement(
                batch_s=Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            )

        primitive, parameters = what
        case = Case(
            primitive=primitive, parameters=build(primitive, parameters).parameters(), backend="numpy", device="cpu"
        )
        study = made_study(["host:name=one", "host:name=other"], [case], measured)
        readings = {"one": cycle(one), "other": cycle(other)}
        for number, worker in enumerate(study.workers):
            assert worker.arm is not None
            taken_s = next(readings[worker.arm.name]) * US
            confinement = replace(HERE.confinement, open_file_s=taken_s, open_temporary_s=taken_s, system_call_s=call_s)
            study.workers[number] = replace(worker, environment=replace(HERE, confinement=confinement))
        (arm,) = compare(study).arms
        (explained,) = [each.explanation for each in arm.cases]
        assert explained is not None
        return explained.causes

    return told


Causes = Callable[..., list[str]]


def test_it_is_told_in_the_place_in_which_opening_takes_longer(causes: Causes) -> None:
    (told,) = causes(SMALL, 1.15, USUAL, SANDBOX)
    assert told.startswith(OPENING.format(slow="other", usual="one"))
    (told,) = causes(SMALL, 0.87, SANDBOX, USUAL)
    assert told.startswith(OPENING.format(slow="one", usual="other"))


def test_it_is_told_where_no_system_call_could_be_timed(causes: Causes) -> None:
    (told,) = causes(SMALL, 1.15, USUAL, SANDBOX, call_s=0.0)
    assert told.startswith(OPENING.format(slow="other", usual="one"))


def test_what_opens_few_files_takes_no_longer_by_it(causes: Causes) -> None:
    (told,) = causes(LARGE, 1.15, USUAL, SANDBOX)
    assert told.endswith("; that makes a ratio of 1, no more")


def test_what_disturbed_the_readings_of_some_workers_is_no_cost_of_the_place(causes: Causes) -> None:
    disturbed = [4.5, 4.5, 4.4, 4.5, 3.3, 4.5, 4.4, 4.5]
    assert [] == causes(SMALL, 1.15, USUAL, disturbed)
    assert [] == causes(SMALL, 1.15, USUAL, USUAL)


def test_a_place_that_opens_files_more_slowly_is_not_the_faster_one_by_it(causes: Causes) -> None:
    assert [] == causes(SMALL, 0.87, USUAL, SANDBOX)
