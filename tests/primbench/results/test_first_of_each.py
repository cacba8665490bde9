"""Of a large file the first records of each primitive are read whole, the others without what was measured."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from primbench.measurement import Measurement
from primbench.results.file import encode, first_of_each, read
from primbench.results.record import Record
from primbench.results.writer import header
from primbench.spec.case import Case


def record(primitive: str, number: int, *, failed: bool) -> Record:
    case = Case(primitive=primitive, parameters={"number": number}, backend="numpy", device="cpu")
    outcome = Record(case=case, status="ok", measurement=Measurement(flop=number), started_utc="", duration_s=1.0)
    return replace(outcome, status="failed", reason="crash") if failed else outcome


def made(seed: int) -> list[Record]:
    """Of two primitives, some of them tried again later."""
    chance = random.Random(seed)
    first = [record(chance.choice("ab"), number, failed=chance.random() < 0.3) for number in range(60)]
    again = [
        record(each.case.primitive, int(each.case.parameters["number"]), failed=chance.random() < 0.3)
        for each in first
        if each.status == "failed"
    ]
    return first + again


@pytest.mark.parametrize("seed", range(5))
def test_those_that_come_first_once_all_is_read_are_whole_and_the_others_alike_but_for_that(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join([encode(header(["primbench"], {})), *map(encode, made(seed))]))
    whole, in_part = read(path), read(path, first_of_each(10))
    assert [replace(each, measurement=None) for each in whole.records] == [
        replace(each, measurement=None) for each in in_part.records
    ]
    for primitive in "ab":
        one, other = (
            [each for each in found.latest() if each.case.primitive == primitive] for found in (whole, in_part)
        )
        assert one[:10] == other[:10]
    assert sum(each.measurement is None for each in in_part.latest()) > 20
