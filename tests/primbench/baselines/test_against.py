"""--against: earlier results and published times beside ours, what matches, and what is said below the table."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from msgspec.structs import replace

import primbench.suites as suites
from primbench.baselines.against import parse
from primbench.baselines.earlier import Earlier
from primbench.baselines.published import PublishedTimes
from primbench.baselines.yardstick import key_of
from primbench.environment import fingerprint
from primbench.environment.devices import Devices
from primbench.environment.machine import Machine
from primbench.errors import FileError, InvalidRequest
from primbench.gpu.nvidia.gpu import Gpu
from primbench.measurement import Measurement, Samples
from primbench.numa.placement import EffectivePlacement
from primbench.registry import build
from primbench.results.file import read
from primbench.results.metrics import main_of
from primbench.results.record import Header, Record, Worker
from primbench.results.writer import Writer
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.study import Study
from primbench.suites import deepbench

HERE = replace(
    fingerprint.collect(gpus=False),
    devices=Devices(gpus=[Gpu(name="H200")]),
    machine=Machine(kernel="6.1", architecture="x86_64", cpu_model="EPYC"),
)


def samples(median_s: float) -> Samples:
    return Samples(samples_s=[median_s] * 7, calls_per_sample=1, taken_by="host clock", stopped="noise")


def on_gpu(device_s: float = 1e-3, stream_s: float = 2e-3, wall_s: float = 3e-3) -> Measurement:
    return Measurement(stream_s=samples(stream_s), device_s=samples(device_s), wall_s=samples(wall_s))


def record(measurement: Measurement | None, primitive: str = "gemm", **changes: Any) -> Record:
    fields = {"m": 1760, "n": 16, "k": 1760} | changes.pop("fields", {})
    case = {"primitive": primitive, "parameters": build(primitive, fields).parameters()}
    placed = {"backend": "torch", "device": "cuda:0", "labels": {}}
    return Record(
        case=Case(**case | placed | changes),
        status="ok" if measurement else "failed",
        measurement=measurement,
        worker=0,
        started_utc="",
        duration_s=1.0,
    )


def test_a_study_has_its_own_comparison(tmp_path: Path) -> None:
    study = Study(arms=[Arm(name="host")], cases=[], pairs=1)
    header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=HERE, study=study)
    path = tmp_path / "study.jsonl"
    Writer(path, header).close()
    with pytest.raises(InvalidRequest, match=f"of a study, .*: `primbench compare {path}`"):
        parse(str(path))


def written(path: Path, *records: Record) -> Path:
    writer = Writer(path, Header(schema_version=1, command=[], started_utc="", labels={}, environment=HERE))
    placement = EffectivePlacement(cpus=[0], memory_policy="default", memory_nodes=[0], rung="none", threads=1)
    torch = {"backend": "torch", "device": "cuda:0", "versions": {"torch": "2.11"}}
    writer.write(Worker(worker=0, pid=1, environment=HERE, placement=placement, **torch))  # type: ignore[arg-type]
    for each in records:
        writer.write(each)
    writer.close()
    return path


def earlier(folder: Path, *records: Record) -> Earlier:
    found = parse(str(written(folder / "theirs.jsonl", *records)))
    assert isinstance(found, Earlier)
    return found


def test_the_same_case_is_compared_by_its_main_metric(tmp_path: Path) -> None:
    theirs = earlier(tmp_path, record(on_gpu(device_s=4e-3)))
    assert {"theirs_s": 4e-3, "ratio": 0.25} == theirs.figures(record(on_gpu(device_s=1e-3)))


DIFFERENT: dict[str, dict[str, Any]] = {
    "size": {"fields": {"m": 1}},
    "dtype": {"fields": {"dtype": "float16"}},
    "backend": {"backend": "cupy"},
    "device": {"device": "cpu"},
    "cache": {"method": Method(cache="cold")},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_was_measured_otherwise_does_not_match(what: str, tmp_path: Path) -> None:
    theirs = earlier(tmp_path, record(on_gpu()))
    assert {"theirs_s": None, "ratio": None} == theirs.figures(record(on_gpu(), **DIFFERENT[what]))


@pytest.mark.parametrize("change", [{"device": "cuda:3"}, {"labels": {"set": "x"}}, {"method": Method(seed=3)}])
def test_what_is_no_part_of_the_measured_does_not_count(change: dict[str, Any], tmp_path: Path) -> None:
    assert 1.0 == earlier(tmp_path, record(on_gpu())).figures(record(on_gpu(), **change))["ratio"]


def test_other_metric_does_not_match(tmp_path: Path) -> None:
    theirs = earlier(tmp_path, record(on_gpu()))
    assert theirs.figures(record(Measurement(stream_s=samples(1e-3))))["theirs_s"] is None


def test_theirs_is_shown_where_ours_failed(tmp_path: Path) -> None:
    assert {"theirs_s": 1e-3, "ratio": None} == earlier(tmp_path, record(on_gpu())).figures(record(None))


def test_several_processes_are_their_median(tmp_path: Path) -> None:
    theirs = earlier(tmp_path, *(record(on_gpu(device_s=each), process=n) for n, each in enumerate((1e-3, 9e-3, 2e-3))))
    assert 2e-3 == theirs.figures(record(on_gpu()))["theirs_s"]


def test_fields_that_an_older_file_lacks_have_their_defaults(tmp_path: Path) -> None:
    older = record(on_gpu())
    del older.case.parameters["math_mode"]
    assert 1.0 == earlier(tmp_path, older).figures(record(on_gpu()))["ratio"]


def test_summary_counts_and_claims_no_verdict(tmp_path: Path) -> None:
    theirs = earlier(tmp_path, *(record(on_gpu(), fields={"m": m}) for m in (1, 2)))
    ours = [record(on_gpu(device_s=each), fields={"m": m}) for m, each in ((1, 1.01e-3), (2, 4e-3), (3, 1e-3))]
    assert [
        f"theirs: {tmp_path}/theirs.jsonl, torch 2.11 on H200",
        "ratio: our main metric over theirs, geometric mean 2.010 over 2 of 3 cases, 1 of them off by more than 2.0%; "
        "the two runs are unpaired, which proves no difference",
    ] == theirs.notes(ours)


def test_nothing_that_matches_says_what_there_is(tmp_path: Path) -> None:
    theirs = earlier(tmp_path, record(on_gpu()))
    (note,) = theirs.notes([record(on_gpu(), fields={"m": 5})])
    assert note.endswith("theirs.jsonl holds none of these cases, on this backend: it has gemm on torch cuda")


def test_run_that_timed_nothing_says_so(tmp_path: Path) -> None:
    assert "none of ours was timed, 0 of them" in earlier(tmp_path, record(on_gpu())).notes([record(None)])[1]


def test_file_without_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"theirs\.jsonl: holds no times to compare with$"):
        parse(str(written(tmp_path / "theirs.jsonl", record(None))))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nosuch", "'nosuch': no such file; --against takes published:"),
        ("", "'': no such file"),
        ("x" * 300, f"'{'x' * 300}': no such file"),
        ("reference:h0", "reference:h0: there are "),
        ("published:x", "published:x: there are AMD MI25"),
    ],
)
def test_what_is_not_there_names_what_is(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("name", suites.references())
def test_shipped_reference_agrees_with_itself(name: str) -> None:
    """By a case that no other file of the device has: of several files the median counts."""
    theirs = parse(f"reference:{name}")
    timed = [[each for each in read(path).latest() if each.status == "ok"] for path in suites.references()[name]]
    files = Counter(key for records in timed for key in {main_key(each) for each in records})
    for records in timed:
        alone = [each for each in records if files[main_key(each)] == 1]
        of_the_first = [each for each in alone if replace(each.case, process=0) == alone[0].case]
        assert pytest.approx(1.0) == median(theirs.figures(each)["ratio"] or 0.0 for each in of_the_first)


def main_key(record: Record) -> object:
    metric = main_of(record.measurement)
    assert metric is not None
    return key_of(record.case, metric)


def test_a_reference_may_be_compressed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/README.md").touch()
    plain = [path for path in suites.references()["h200"] if path.suffix == ".jsonl"]
    shipped = min(plain, key=lambda path: path.stat().st_size)
    (tmp_path / "reference/h201-allreduce.jsonl.xz").write_bytes(lzma.compress(shipped.read_bytes()))
    monkeypatch.setattr(suites, "_FOLDER", tmp_path)
    assert ["h201"] == list(suites.references())
    assert isinstance(parse("reference:h201"), Earlier)


V100 = PublishedTimes(deepbench.read("V100"))


def test_published_time_is_beside_the_loop_of_calls() -> None:
    assert {"theirs_s": 38e-6, "ratio": 0.5} == pytest.approx(V100.figures(record(on_gpu(stream_s=19e-6))))


def test_published_time_is_beside_batches_on_a_cpu() -> None:
    ours = record(Measurement(batch_s=samples(76e-6), wall_s=samples(1.0)), device="cpu")
    assert {"theirs_s": 38e-6, "ratio": 2.0} == pytest.approx(V100.figures(ours))


def test_published_time_of_an_allreduce_is_beside_single_calls() -> None:
    fields = build("allreduce", {"bytes": 400_000, "ranks": 2, "in_place": False}).parameters()
    case = Case(primitive="allreduce", parameters=fields, backend="torch", device="cuda:0")
    ours = replace(record(on_gpu(wall_s=3e-3)), case=case)
    found = PublishedTimes(deepbench.read("1080 Ti"))
    theirs_s = found.figures(ours)["theirs_s"]
    assert theirs_s is not None
    assert pytest.approx(3e-3 / theirs_s) == found.figures(ours)["ratio"]
    assert "our wall over theirs" in found.notes([ours])[1]


@pytest.mark.parametrize("fields", [{"m": 7}, {"dtype": "bfloat16"}, {"math_mode": "tf32"}])
def test_what_was_not_published_has_no_time(fields: dict[str, Any]) -> None:
    assert {"theirs_s": None, "ratio": None} == V100.figures(record(on_gpu(), fields=fields))


def test_parameters_that_this_version_refuses_have_no_published_time() -> None:
    other = record(on_gpu())
    other.case.parameters["hidden"] = 3
    assert V100.figures(other)["theirs_s"] is None


def test_notes_name_the_source_and_what_limits_the_comparison() -> None:
    half = {"m": 2048, "n": 7133, "k": 2048, "dtype": "float16", "trans_b": True}
    assert [
        "theirs: NVIDIA Tesla V100, fp16_in_mixed_math (CUDA 10.1.243, cuDNN 7.6.2.24, driver 418.67), published by "
        "DeepBench",
        "ratio: our stream over theirs, a mean of calls and their launches back to back, cut off to whole us; "
        "geometric mean 2.000 over 1 of 2 cases",
        "theirs are column-major: the very call is ours with m and n, and trans_a and trans_b, swapped",
        "float16: DeepBench's program asks for sums in float16, its sheet names wider ones",
        "their float16 and int8 inputs were zeros, which took up to 15 % less time on a V100",
        "their sheet prints another size for 1 of these, as n=10376 for gemm/training/042",
    ] == V100.notes([record(on_gpu(stream_s=2 * 0.575e-3), fields=half), record(on_gpu(), fields={"m": 7})])


def test_note_names_what_was_published_where_nothing_matches() -> None:
    (note,) = V100.notes([record(on_gpu(), fields={"dtype": "bfloat16"})])
    expected = "it published training in float16, training in float32, in its own sizes"
    assert f"theirs: DeepBench published no times of these cases on NVIDIA Tesla V100: {expected}" == note


def test_recurrent_layers_of_theirs_skip_the_input() -> None:
    layer = build("rnn", {"hidden_size": 1760, "batch_size": 16, "seq_len": 50, "direction": "bwd_data"})
    case = Case(primitive="rnn", parameters=layer.parameters(), backend="torch", device="cuda:0")
    notes = V100.notes([replace(record(on_gpu()), case=case)])
    assert "theirs skip the products with the input, which ours compute: half of the flop" in notes


def test_notes_of_float32_leave_out_what_is_of_float16() -> None:
    notes = V100.notes([record(on_gpu())])
    assert not [note for note in notes if "float16" in note or "prints" in note]
