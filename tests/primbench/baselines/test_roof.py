"""--roof: which cases it puts in front, and what part of them a case reaches."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import primbench.suites as suites
from primbench.baselines.roof import Roof, needed, roof_of
from primbench.environment import fingerprint
from primbench.environment.devices import Devices
from primbench.gpu.nvidia.gpu import Gpu
from primbench.measurement import Measurement, Samples
from primbench.numa.placement import EffectivePlacement
from primbench.registry import build
from primbench.report.table import tables
from primbench.results.file import Results
from primbench.results.record import Header, Record, Worker
from primbench.spec.case import Case

HERE = replace(
    fingerprint.collect(gpus=False), devices=Devices(gpus=[Gpu(name="NVIDIA H200"), Gpu(name="NVIDIA Unheard-of")])
)
PLACED = EffectivePlacement(cpus=[0], memory_policy="default", memory_nodes=[0], rung="none", threads=1)
GEMM = {"m": 64, "n": 64, "k": 64}


def case(primitive: str, device: str = "cuda:0", labels: dict[str, str] | None = None, **fields: Any) -> Case:
    sizes: dict[str, Any] = {"bytes": 64} if primitive == "memcpy" else GEMM
    parameters = build(primitive, sizes | fields).parameters()
    return Case(primitive=primitive, parameters=parameters, backend="torch", device=device, labels=labels or {})


def record(rate: float, primitive: str = "gemm", device: str = "cuda:0", set: str = "", **fields: Any) -> Record:  # noqa: A002
    """Of a case that does so many FLOP or bytes a second."""
    one = Samples(samples_s=[1.0], calls_per_sample=1, taken_by="graph", stopped="count")
    measured = Measurement(device_s=one, flop=int(rate), bytes_moved=int(rate), verified=True)
    if primitive == "memcpy":
        measured = replace(measured, flop=None)
    labels = {"set": set} if set else {}
    return Record(
        case=case(primitive, device, labels, **fields), status="ok", measurement=measured, started_utc="", duration_s=1
    )


def worker(device: str) -> Worker:
    return Worker(
        worker=0, pid=1, backend="torch", device=device, environment=HERE, placement=PLACED, versions={"torch": "2"}
    )


def roof(*records: Record) -> Roof:
    header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=HERE)
    workers = [worker("cuda:0"), worker("cuda:1"), worker("cpu")]
    found = roof_of(Results(header=header, workers=workers, records=list(records)))
    assert found is not None
    return found


def of_roof(found: Roof, record: Record) -> float | None:
    return found.figures(record)["of_roof_fraction"]


def of_datasheet(found: Roof, record: Record) -> float | None:
    return found.figures(record)["of_datasheet_fraction"]


def test_a_rate_is_set_beside_the_best_of_its_dtype() -> None:
    found = roof(record(8e14, set="roof", dtype="float16"), record(6e14, set="roof", dtype="float16"))
    assert 0.25 == of_roof(found, record(2e14, dtype="float16"))
    assert of_roof(found, record(2e14, dtype="bfloat16")) is None
    assert of_roof(found, record(2e14, device="cuda:1", dtype="float16")) is None


def test_tf32_has_a_roof_of_its_own() -> None:
    found = roof(record(5e13, set="roof"), record(4e14, set="roof", math_mode="tf32"))
    assert (0.5, 0.125) == (of_roof(found, record(2.5e13)), of_roof(found, record(5e13, math_mode="tf32")))


def test_copies_are_set_beside_those_of_their_direction() -> None:
    found = roof(record(4e9, "memcpy", set="roof", direction="h2d"), record(8e9, "memcpy", set="roof", direction="d2d"))
    assert 0.5 == of_roof(found, record(2e9, "memcpy", direction="h2d", memory="pageable"))
    assert of_roof(found, record(2e9, "memcpy", direction="d2h")) is None
    assert of_roof(found, record(2e9, "memcpy", direction="h2d", gpus=2)) is None  # more than one path


def test_case_of_set_roof_that_failed_bounds_nothing() -> None:
    failed = replace(record(1e14, set="roof"), status="failed", measurement=None)
    header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=HERE)
    assert roof_of(Results(header=header, workers=[], records=[failed, record(1e12)])) is None


def test_datasheet_is_that_of_the_device() -> None:
    found = roof(record(8e14, set="roof", dtype="bfloat16"))
    assert pytest.approx(0.5) == of_datasheet(found, record(989.5e12 / 2, dtype="bfloat16"))
    assert pytest.approx(0.5) == of_datasheet(found, record(494.5e12 / 2, math_mode="tf32"))
    assert pytest.approx(0.5) == of_datasheet(found, record(2.4e12, "memcpy", direction="d2d"))
    assert pytest.approx(0.8) == of_datasheet(found, record(51.2e9, "memcpy", direction="h2d"))
    assert of_datasheet(found, record(1e14, device="cuda:1")) is None
    assert of_datasheet(found, record(1e14, device="cpu")) is None


def test_table_shows_the_shares_and_says_of_what() -> None:
    records = [record(8e14, set="roof", dtype="bfloat16"), record(4e14, dtype="bfloat16")]
    (found,) = tables(records, [worker("cuda:0")], None, [roof(*records)])
    shown = {name: [row[found.headings.index(name)] for row in found.rows] for name in ("of roof", "of datasheet")}
    assert {"of roof": ["100.0%", "50.0%"], "of datasheet": ["80.8%", "40.4%"]} == shown
    assert [
        "of roof: of the best rate that a case of set roof reached on this device in this run",
        "of datasheet: of the peak without sparsity in https://www.nvidia.com/en-us/data-center/h200/",
    ] == [each.text for each in found.notes]


@pytest.mark.parametrize(("explained", "rate"), [(False, 4.04e9), (True, 8e9)])
def test_more_than_the_roof_is_explained(explained: bool, rate: float) -> None:
    notes = roof(record(4e9, "memcpy", set="roof", direction="h2d")).notes([record(rate, "memcpy", direction="h2d")])
    assert explained == any(note.startswith("more than the roof: ") for note in notes)


def test_table_without_anything_to_compare_has_neither_column() -> None:
    (found,) = tables(
        [record(4e14)], [], None, [roof(record(8e14, set="roof", dtype="float16"), record(1.0, "memcpy"))]
    )
    assert "of roof" not in found.headings


def sizes(*cases: Case) -> list[tuple[str, object]]:
    found = [entry.problem.parameters() for entry in needed(cases)]
    return [(str(each.get("dtype", each.get("direction"))), each.get("math_mode", "")) for each in found]


def test_only_what_bounds_the_cases_is_put_in_front() -> None:
    assert [("float16", "ieee")] == sizes(case("gemm", dtype="float16"), case("gemm", m=1, dtype="float16"))
    assert [("float32", "tf32"), ("float8_e4m3", "ieee")] == sizes(
        case("gemm", dtype="float8_e4m3"), case("gemm", math_mode="tf32")
    )
    assert [("d2h", "")] == sizes(case("memcpy", direction="d2h"))
    assert [("h2h", "")] == sizes(case("memcpy", "cpu", direction="h2h"))
    assert [] == sizes(case("memcpy", direction="bidirectional"))
    assert [] == sizes(case("gemm", "cpu", dtype="float16"))


def test_every_primitive_that_counts_operations_has_a_roof_on_a_gpu() -> None:
    for primitive, sets in suites.describe("sizes").counts.items():
        assert sets
        problem = suites.load("small", only=[primitive])[0]
        bound = problem.bound()
        if bound and bound.rate == "flop_per_s":
            of = Case(primitive=primitive, parameters=problem.parameters(), backend="torch", device="cuda:0")
            assert 1 == len(needed([of]))


def test_entries_of_the_suite_are_of_set_roof_and_for_one_kind_of_device() -> None:
    for entry in suites.read("roof"):
        assert "roof" == entry.labels["set"]
        assert entry.labels["device"] in ("cpu", "cuda")
