"""The flat summary of a record, and the data frame made of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.measurement import Measurement, Samples, Trace
from primbench.measurement.over_time import SERIES, OverTime, Series
from primbench.measurement.readings import GpuReading
from primbench.registry import build
from primbench.results.file import Results
from primbench.results.metrics import SAMPLED, main_of
from primbench.results.record import Header, Record
from primbench.results.summary import flat
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement


def times(*values_s: float) -> Samples:
    return Samples(samples_s=list(values_s), calls_per_sample=1, taken_by="event pair", stopped="count")


ON_GPU = Measurement(
    enqueue_s=times(5e-6),
    enqueue_single_s=times(6e-6),
    stream_s=times(4e-3),
    device_s=times(3e-3, 1e-3, 2e-3),
    wall_s=times(5e-3),
    trace=Trace(busy_s=times(1.5e-3), kernels_per_call=2.0, kernels=["a", "b"]),
    verified=True,
    flop=1000,
    bytes_moved=500,
    gpu=GpuReading(sm_clock_hz=1.785e9),
)


def record(measurement: Measurement | None) -> Record:
    case = Case(
        primitive="gemm",
        parameters=build("gemm", {"m": 4, "n": 5, "k": 6}).parameters(),
        backend="torch",
        device="cuda:0",
        method=Method(cache="cold"),
        placement=Placement(numa_node=1, mem_nodes=(0, 1), mem_policy="interleave", threads=2),
        labels={"set": "training"},
        process=3,
    )
    return Record(case=case, status="ok", measurement=measurement, started_utc="", duration_s=1.0)


def test_case_stands_in_the_first_columns() -> None:
    expected = {"primitive": "gemm", "backend": "torch", "device": "cuda:0", "cache": "cold", "numa_node": 1}
    expected |= {"cpu_node": None, "cpu_kind": None, "mem_nodes": "0-1", "mem_policy": "interleave"}
    expected |= {"threads": 2, "arm": "", "process": 3, "m": 4, "n": 5, "k": 6, "dtype": "float32"}
    assert list(expected.items()) == list(flat(record(ON_GPU)).items())[: len(expected)]
    assert "training" == flat(record(ON_GPU))["label_set"]


def test_quantiles_and_what_follows_from_them() -> None:
    expected = {"device_s": 2e-3, "device_samples": 3}
    expected |= {"enqueue_s": 5e-6, "enqueue_single_s": 6e-6, "busy_s": 1.5e-3, "launch_bound_fraction": 0.5}
    expected |= {"flop_per_s": 5e5, "bytes_per_s": 2.5e5, "gap_per_kernel_s": 0.25e-3, "sm_clock_hz": 1.785e9}
    found = flat(record(ON_GPU))
    assert expected == pytest.approx({name: found[name] for name in expected})


@pytest.mark.parametrize(
    ("count", "p95_s", "p99_s"), [(19, None, None), (20, 18.05, None), (99, 93.1, None), (100, 94.05, 98.01)]
)
def test_a_tail_is_of_as_many_samples_as_have_one(count: int, p95_s: float | None, p99_s: float | None) -> None:
    found = flat(record(replace(ON_GPU, device_s=times(*map(float, range(count))))))
    expected = {"device_p95_s": p95_s, "device_p99_s": p99_s, "device_samples": count}
    assert expected == pytest.approx({name: found[name] for name in expected})


def test_what_disturbed_a_case_is_told_in_words() -> None:
    reading = GpuReading(clocks_event_reasons=["hw slowdown"], pcie_replays=12)
    assert (
        flat(record(replace(ON_GPU, gpu=reading)))["disturbed"] == "clocks held back by: hw slowdown; PCIe replays: 12"
    )
    assert "" == flat(record(ON_GPU))["disturbed"]


def test_every_record_has_the_same_keys_and_none_for_the_unknown() -> None:
    empty = flat(record(None))
    assert list(flat(record(ON_GPU))) == list(empty)
    case_keys = list(empty)[: list(empty).index("status")]
    assert {None} == {value for name, value in empty.items() if name not in (*case_keys, "status")}


def test_what_was_sampled_over_time_stands_there_only_where_it_was_asked_for() -> None:
    used = OverTime(
        series={
            "host_rss_bytes": Series(times_s=[0.0, 1.0], values=[1.0, 3.0]),
            "pcie_tx_bytes_per_s": Series(times_s=[0.5], values=[7.0]),
        },
        interval_s=0.05,
        cost_s=1e-3,
        host_peak_bytes=4,
    )
    asked, unasked = record(replace(ON_GPU, over_time=used)), record(replace(ON_GPU, over_time=None))
    asked = replace(asked, case=replace(asked.case, method=Method(over_time=True)))
    found = flat(asked)
    expected = {"host_rss_mean_bytes": 2.0, "host_rss_peak_bytes": 3.0, "host_peak_bytes": 4}
    expected |= {"pcie_tx_mean_bytes_per_s": 7.0, "pcie_tx_peak_bytes_per_s": 7.0}
    added = {name: found[name] for name in found.keys() - flat(unasked).keys()}
    assert expected == {name: value for name, value in added.items() if value is not None}
    assert 2 * len(SERIES) + 2 == len(added)
    assert list(found) == list(flat(replace(asked, measurement=None))), "the same where the case failed"


def test_every_metric_of_a_measurement_is_in_the_summary() -> None:
    fields = {name for name in Measurement.__struct_fields__ if name.endswith("_s") and name != "phases_s"}
    of_one_primitive = {"h2d_s", "d2h_s", "data_wait_s", "decode_s"}
    assert fields | {"busy_s"} | of_one_primitive == {metric.name for metric in SAMPLED}
    assert {"batch_s"} | of_one_primitive == {metric.name for metric in SAMPLED if metric.samples(ON_GPU) is None}


@pytest.mark.parametrize("without", [(), ("device_s",), ("device_s", "stream_s")])
def test_the_main_metric_is_that_of_the_measurement(without: tuple[str, ...]) -> None:
    measured = replace(ON_GPU, **dict.fromkeys(without))
    found = main_of(measured)
    assert (found and found.samples(measured)) is measured.main


def test_units_are_in_the_names() -> None:
    no_quantities = {"flop", "bytes_moved", "kernels_per_call", "verified", "disturbed"}
    no_quantities |= {"nodes_per_call", "longest_path_per_call"}
    metrics = list(flat(record(ON_GPU)))[list(flat(record(ON_GPU))).index("verified") :]
    assert not [n for n in metrics if n not in no_quantities and not n.endswith(("_s", "_samples", "_fraction", "_hz"))]


@pytest.mark.wheel
def test_frame_has_a_row_a_record() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'primbench[report]'")
    here = fingerprint.collect(gpus=False)
    header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=here)
    frame = Results(header=header, workers=[], records=[record(ON_GPU), record(None)]).frame()
    assert (2, len(flat(record(None)))) == frame.shape
    assert 2e-3 == frame["device_s"][0]
    assert frame["device_s"].isna()[1]


def test_a_field_called_as_another_column_takes_none_from_it() -> None:
    named = record(ON_GPU)
    named = replace(named, case=replace(named.case, parameters={"m": 4, "device": "disk", "flop": 3}))
    row = flat(named)
    assert ("cuda:0", 1000, "disk", 3, 4) == tuple(
        row[each] for each in ("device", "flop", "problem_device", "problem_flop", "m")
    )
