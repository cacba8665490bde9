"""Measurements that are left in a large file are those that are there, and times alone those of the whole record."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare_runs
from primbench.errors import FileError
from primbench.measurement import Measurement, Samples
from primbench.results import lines
from primbench.results.file import Results, encode, read, read_by
from primbench.results.lines import left_in_file, times_alone_but_where
from primbench.results.record import Record
from primbench.results.writer import header
from primbench.spec.case import Case


def record(number: int, process: int) -> Record:
    case = Case(primitive="gemm", parameters={"m": number}, backend="numpy", device="cpu", process=process)
    samples = Samples(
        samples_s=[1.0 + number + process / 100] * 3, calls_per_sample=1, taken_by="host clock", stopped="count",
        loops_s=[(0, 1.0)], queued_s=[0.0],
    )  # fmt: skip
    measured = Measurement(batch_s=samples, phases_s={"timing": 1.0}, flop=number)
    return Record(case=case, status="ok", measurement=measured, started_utc="", duration_s=1.0)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of three cases in four processes each, which is large enough, of which two records are held."""
    found = [encode(record(number, process)) for process in range(4) for number in range(1, 4)]
    monkeypatch.setattr(lines, "LARGE_BYTES", 0)
    monkeypatch.setattr(lines, "HELD_BYTES", 2 * len(found[0]) + 100)
    (tmp_path / "run.jsonl").write_bytes(b"".join([encode(header(["primbench"], {})), *found]))
    return tmp_path / "run.jsonl"


def left(path: Path) -> Results:
    return read_by(path, left_in_file(path))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_records_have_the_measurements_that_are_in_the_file_however_often_they_are_asked(
    path: Path, mark: bytes
) -> None:
    path.write_bytes(mark + path.read_bytes())
    whole = read(path).records
    for found in (left(path).records, list(reversed(left(path).records))):
        expected = whole if found[0].case == whole[0].case else list(reversed(whole))
        for _ in range(2):
            assert [each.measurement for each in expected] == [each.measurement for each in found]
    moved = replace(left(path).records[5], worker=7)
    assert (7, whole[5].measurement) == (moved.worker, moved.measurement)


def test_a_comparison_is_the_same(path: Path) -> None:
    shutil.copy(path, path.with_name("other.jsonl"))
    whole, again = (
        compare_runs([read_as(path)], [read_as(path.with_name("other.jsonl"))], ("a", "b")) for read_as in (read, left)
    )
    assert msgspec.json.encode(whole) == msgspec.json.encode(again)
    assert whole.estimates


def test_a_measurement_that_is_none_is_refused_by_its_line_once_it_is_asked_for(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"flop":2', b'"flop":"two"'))
    found = left(path).records
    assert found[0].measurement is not None
    with pytest.raises(FileError, match=r"run\.jsonl:3: not a line of a results file: Expected `int \| null`"):
        _ = found[1].measurement


def test_such_a_record_cannot_be_written_as_if_it_were_whole(path: Path) -> None:
    with pytest.raises(TypeError, match="_Place"):
        encode(left(path).records[0])


def test_the_file_is_closed_with_the_last_of_its_records(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    found = left(path)
    assert before + 1 == len(os.listdir("/proc/self/fd"))
    del found
    gc.collect()
    assert before == len(os.listdir("/proc/self/fd"))


def test_times_alone_are_those_of_the_whole_record(path: Path) -> None:
    found = read_by(path, times_alone_but_where(lambda record: record.case.process == 0)).records
    whole = read(path).records
    assert whole[:3] == found[:3]
    for one, other in zip(whole[3:], found[3:], strict=True):
        assert one.measurement is not None
        assert one.measurement.batch_s is not None
        samples = replace(one.measurement.batch_s, loops_s=[], queued_s=[])
        assert replace(one.measurement, batch_s=samples, phases_s={}) == other.measurement
