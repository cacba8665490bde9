"""How long cases are expected to take, and which may begin within a time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from primbench.experiments.budget import Budget, expected_s, spread
from primbench.problem import Value
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.record import Record
from primbench.spec.case import Case

REFERENCE = Path(__file__).parents[3] / "suites/reference"
KEPT = sorted((*REFERENCE.glob("*.jsonl"), *REFERENCE.glob("studies/*.jsonl.xz")))


def case(size: int, primitive: str = "gemm", **fields: object) -> Case:
    sizes: dict[str, dict[str, Value]] = {
        "gemm": {"m": size, "n": 4, "k": 4},
        "memcpy": {"bytes": size},
        "launch": {"call": "getppid"},
    }
    made = build(primitive, sizes[primitive])
    return replace(Case(primitive=primitive, parameters=made.parameters(), backend="numpy", device="cpu"), **fields)


def took(case: Case, seconds: float) -> Record:
    return Record(case=case, status="ok", worker=0, started_utc="2026-01-01T00:00:00+00:00", duration_s=seconds)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name.partition(".")[0])
def test_what_is_expected_is_within_a_factor_of_two_of_what_was_taken(path: Path) -> None:
    """Of all cases of a file together; of those of one arm in a study, as an arm's neighbour slows it."""
    results = results_file.read(path)
    study = results.header.study
    slowed = {arm.name for arm in study.arms if arm.neighbour} if study else set()
    by_arm = defaultdict[bool, list[Record]](list)
    for record in results.records:
        if record.status == "ok":
            by_arm[record.case.arm in slowed].append(record)
    taken_s = sum(record.duration_s for record in by_arm[False])
    assert 0.5 < sum(expected_s(record.case) for record in by_arm[False]) / taken_s < 2


def test_the_first_case_begins_and_no_other_one_that_would_end_later() -> None:
    records: list[Record] = []
    now = [0.0]
    budget = Budget(10.0, records, lambda: now[0])
    cases = [case(size) for size in range(4, 10)]
    ran = []
    for each in budget.within(cases):
        ran.append(each)
        records.append(took(each, 3.0))
        now[0] += 3
    assert cases[:3] == ran
    assert cases[3:] == budget.left_out


def test_a_shorter_case_may_begin_where_a_longer_one_may_not() -> None:
    records = [took(case(4), 3.0), took(case(8, "launch"), 0.1)]
    budget = Budget(1.0, records, lambda: 0.0)
    assert budget.may_begin([case(4)]), "the first one always"
    records.append(took(case(4), 3.0))
    assert [False, True] == [budget.may_begin([each]) for each in (case(5), case(8, "launch"))]


def test_cases_of_later_arms_are_reckoned_with() -> None:
    records = [took(case(size), 2.0) for size in (4, 5, 6)]
    arms = [[replace(case(size), arm=arm) for arm in ("host", "podman")] for size in (4, 5, 6)]
    budget = Budget(9.0, records, lambda: 0.0)
    assert [True, True, False] == [budget.may_begin(each) for each in arms]
    assert arms[2] == budget.left_out


def test_without_a_budget_all_may_begin() -> None:
    budget = Budget(None, [])
    assert all(budget.may_begin([case(size)]) for size in range(4, 40))
    assert [] == budget.left_out


def test_first_comes_one_case_of_each_primitive_and_then_they_take_turns() -> None:
    gemms, copies = [case(size) for size in (4, 5, 6)], [case(64, "memcpy"), case(128, "memcpy")]
    far = [case(size, backend="torch") for size in (4, 5)]
    one = case(8, "launch", backend="torch")
    found = spread([*gemms, *copies, *far, one])
    assert [gemms[0], copies[0], one] == found[:3]
    assert [gemms[1], copies[1], gemms[2], *far] == found[3:]
    assert [] == spread([])
