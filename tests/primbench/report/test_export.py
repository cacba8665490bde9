"""CSV, Markdown and JSON of records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench.baselines.yardstick import Yardstick
from primbench.environment import fingerprint
from primbench.kernels.gemm import Gemm
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.report.export import document
from primbench.report.formats import known
from primbench.results.disturbances import Disturbance
from primbench.results.file import Results
from primbench.results.record import Header, Record, Worker
from primbench.spec.case import Case
from primbench.units import TimeUnit

if TYPE_CHECKING:
    import pytest

TIMES = Samples(samples_s=[3e-6, 1e-6, 2e-6], calls_per_sample=10, taken_by="host clock", stopped="count")
OK = Measurement(batch_s=TIMES, wall_s=TIMES, verified=True, flop=2 * 4 * 5 * 6, bytes_moved=4 * 74)


def record(measurement: Measurement | None, reason: str | None = None, labels: dict[str, str] | None = None) -> Record:
    parameters = build("gemm", {"m": 4, "n": 5, "k": 6}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu", labels=labels or {})
    return Record(
        case=case,
        status="ok" if measurement else "failed",
        reason=reason,
        measurement=measurement,
        started_utc="2026-01-02",
        duration_s=0.5,
    )


def to_csv(records: Sequence[Record], yardsticks: Sequence[Yardstick] = ()) -> str:
    return str(known()["csv"].write(document(held(records), None, yardsticks)))


def to_markdown(
    records: Sequence[Record],
    workers: Sequence[Worker],
    time_unit: TimeUnit | None = None,
    yardsticks: Sequence[Yardstick] = (),
) -> str:
    return str(known()["markdown"].write(document(held(records, workers), time_unit, yardsticks)))


def to_json(results: Results) -> str:
    return str(known()["json"].write(document(results)))


def held(records: Sequence[Record], workers: Sequence[Worker] = ()) -> Results:
    here = fingerprint.collect(gpus=False)
    header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=here)
    return Results(header=header, workers=[*workers], records=[*records])


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_row_a_record_in_seconds() -> None:
    (row,) = rows(to_csv([record(OK)]))
    expected = {"primitive": "gemm", "m": "4", "dtype": "float32", "status": "ok", "verified": "True"}
    expected |= {"batch_s": "2e-06", "batch_samples": "3", "flop": "240", "flop_per_s": str(240 / 2e-6)}
    assert expected == {name: row[name] for name in expected}


def test_csv_leaves_the_unknown_empty_and_never_0() -> None:
    (row,) = rows(to_csv([record(None, "crash")]))
    assert {""} == {
        row[name] for name in row if name.endswith(("_s", "_samples", "_fraction", "_hz")) or name == "flop"
    }
    assert "crash" == row["reason"]


def test_csv_columns_do_not_depend_on_what_became_of_the_first_record() -> None:
    first, second = (to_csv(records).splitlines()[0] for records in ([record(None, "x"), record(OK)], [record(OK)]))
    assert first == second


def test_csv_has_the_figures_and_times_that_only_a_primitive_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "figures", lambda self, measured: {"bus_bytes_per_s": 2e9, "lag_s": None})
    (row,) = rows(to_csv([record(replace(OK, others={"full_queue_s": TIMES}))]))
    expected = {"bus_bytes_per_s": "2000000000.0", "lag_s": "", "full_queue_s": "2e-06", "full_queue_samples": "3"}
    assert expected == {name: row[name] for name in expected}


def test_csv_leaves_empty_the_times_that_another_record_has() -> None:
    found = rows(to_csv([record(OK), record(replace(OK, others={"full_queue_s": TIMES}))]))
    assert ["", "2e-06"] == [row["full_queue_s"] for row in found]


class Half:
    """A yardstick."""

    def figures(self, record: Record) -> dict[str, float | None]:
        return {"theirs_s": 4e-6, "ratio": 0.5 if record.measurement else None}

    def notes(self, records: Sequence[Record]) -> list[str]:
        return ["half of theirs"]


def test_csv_and_markdown_have_what_a_yardstick_adds() -> None:
    records = [record(OK), record(None, "crash")]
    assert [("4e-06", "0.5"), ("4e-06", "")] == [(r["theirs_s"], r["ratio"]) for r in rows(to_csv(records, [Half()]))]
    found = to_markdown(records, [], None, [Half()])
    assert "0.500 |" in found
    assert found.endswith("half of theirs\n")


def test_csv_has_the_arm_always_and_markdown_in_studies() -> None:
    alone = record(OK)
    half = replace(alone, case=replace(alone.case, arm="half|way"))
    assert [""] == [row["arm"] for row in rows(to_csv([alone]))]
    assert ["half|way", ""] == [row["arm"] for row in rows(to_csv([half, alone]))]
    assert r"half\|way |" in to_markdown([half], [])


def test_csv_quotes_what_a_reason_may_hold() -> None:
    reason = 'RuntimeError: "a", b\n=1+1'
    assert [reason] == [row["reason"] for row in rows(to_csv([record(None, reason)]))]


def test_csv_keeps_labels_in_columns_of_their_own() -> None:
    found = rows(to_csv([record(OK, labels={"set": "a"}), record(OK, labels={"id": "1"})]))
    assert [("a", ""), ("", "1")] == [(row["label_set"], row["label_id"]) for row in found]


def test_json_is_the_results_and_reads_back() -> None:
    header = Header(
        schema_version=1,
        command=["x"],
        started_utc="2026-01-02",
        labels={},
        environment=fingerprint.collect(gpus=False),
    )
    results = Results(header=header, workers=[], records=[record(OK), record(None, "crash")])
    text = to_json(results)
    assert results == msgspec.json.decode(text, type=Results)
    assert [3e-6, 1e-6, 2e-6] == json.loads(text)["records"][0]["measurement"]["batch_s"]["samples_s"]


def test_markdown_has_the_columns_of_the_table() -> None:
    found = to_markdown([record(OK)], []).splitlines()
    assert "**gemm  numpy  cpu  (times: median a call)**" == found[0]
    assert ["m", "n", "k", "dtype", "batch", "wall", "noise", "MFLOP/s", "check"] == found[2].replace("|", " ").split()
    assert {"right": 8, "left": 1} == {"right": found[3].count("-:"), "left": found[3].count(":-")}


def test_every_process_and_arm_is_a_test_of_its_own() -> None:
    one = record(OK)
    cases = [replace(one.case, process=process, arm=arm) for arm in ("", "a") for process in (0, 1)]
    checks = document(held([replace(one, case=case) for case in cases])).checks()
    assert 4 == len({(check.group, check.name) for check in checks})
    assert {"passed"} == {check.state for check in checks}


def test_markdown_of_the_time_unit_that_is_asked_for() -> None:
    assert "2000 ns" in to_markdown([record(OK)], [], "ns")


def test_what_disturbed_a_record_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Measurement] = []

    def looked_for(measurement: Measurement) -> list[Disturbance]:
        asked.append(measurement)
        return [Disturbance("neighbour", "a neighbour")]

    monkeypatch.setattr("primbench.results.record.disturbances", looked_for)
    found = [record(OK), record(replace(OK, flop=7)), record(None, "crash")]
    assert "a neighbour" in to_markdown(found, [])
    assert ["a neighbour", "a neighbour", ""] == [row["disturbed"] for row in rows(to_csv(found))]
    assert [found[0].measurement, found[1].measurement] == asked


def test_osu_columns_have_bytes_mean_microseconds_and_megabytes_a_second() -> None:
    def of(primitive: str, size: int, samples_s: list[float]) -> Record:
        times = Samples(samples_s=samples_s, calls_per_sample=1, taken_by="host clock", stopped="count")
        case = Case(
            primitive=primitive,
            parameters=build(primitive, {"bytes": size}).parameters(),
            backend="torch",
            device="cpu",
        )
        return replace(record(Measurement(batch_s=times, verified=True)), case=case)

    def written(*records: Record) -> list[str]:
        return str(known()["osu"].write(document(held(records)))).splitlines()

    title, heading, small, large, _, other, *_ = written(
        of("allreduce", 1024, [1e-6, 2e-6, 6e-6]), of("allreduce", 2**20, [1e-3]), of("collective", 1024, [1e-6])
    )
    assert "# primbench allreduce ranks=2 dtype=float32 op=sum in_place=True on torch cpu" == title
    assert heading.split()[1:] == ["Size", "Avg", "Latency(us)", "Bandwidth", "(MB/s)"]
    assert ["1024", "3.00", "341.33"] == small.split()
    assert ["1048576", "1000.00", "1048.58"] == large.split()
    assert other.startswith("# primbench collective ")
    assert ["# no case here has a size in bytes and a time"] == written(record(OK), record(None, "broken"))
