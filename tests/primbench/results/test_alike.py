"""What many records have alike is one object, and they read as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.results import alike
from primbench.results.alike import Alike
from primbench.results.file import encode, read
from primbench.results.record import Record
from primbench.results.writer import header
from primbench.spec.case import Case

SAMPLES = Samples(
    samples_s=[1.0], calls_per_sample=1, taken_by="graph", stopped="count", loops_s=[(0, 1.0)], queued_s=[0.0]
)
MEASURED = Measurement(batch_s=SAMPLES, counts={"one": 1}, missing={"pages": "no host memory is timed"})
PARAMETERS: dict[str, Any] = {"m": 1, "alpha": 1.0, "bias": False}
CASE = Case(primitive="gemm", parameters=PARAMETERS, backend="numpy", device="cpu", labels={"id": "a"})


def records() -> list[Record]:
    cases = [replace(CASE, process=process) for process in range(2)]
    return [Record(case=each, status="ok", measurement=MEASURED, started_utc="", duration_s=1.0) for each in cases]


def test_parts_that_are_equal_are_held_once_and_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join([encode(header(["primbench"], {})), *map(encode, records())]))
    one, other = read(path).records
    assert [encode(one), encode(other)] == [*map(encode, records())]
    assert one.measurement is not None
    assert other.measurement is not None
    assert one.measurement.missing is other.measurement.missing
    assert one.case.labels is other.case.labels


def test_fields_that_are_shared_are_there() -> None:
    for kind, names in [*alike.FIELDS.items(), *alike.MOSTLY_NOTHING.items()]:
        assert {*names} <= {*kind.__struct_fields__}


def test_a_whole_number_and_a_real_one_stay_what_they_are() -> None:
    shared = Alike()
    found = [
        replace(each, case=replace(each.case, parameters={"alpha": value, "bias": False}))
        for each, value in zip(records(), (1, 1.0), strict=True)
    ]
    for each in found:
        shared.add_case(each.case)
    assert [int, float] == [type(each.case.parameters["alpha"]) for each in found]


def test_tables_of_one_length_are_not_taken_for_each_other() -> None:
    shared = Alike()
    found = [replace(MEASURED, phases_s={"": length_s}) for length_s in (1.0, 2.0)]
    for each in found:
        shared.add_measurement(each)
    assert [1.0, 2.0] == [each.phases_s[""] for each in found]
