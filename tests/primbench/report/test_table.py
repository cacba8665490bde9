"""The table: which columns it has, what its cells say, and what its title may claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.environment.devices import Devices
from primbench.environment.machine import Machine
from primbench.gpu.nvidia.gpu import Gpu
from primbench.kernels.gemm import Gemm
from primbench.measurement import Measurement, Samples, Trace
from primbench.measurement.readings import GpuProcess, GpuReading, HostReading
from primbench.numa.placement import EffectivePlacement
from primbench.registry import build
from primbench.report.document import Table
from primbench.report.formats.markdown import of_table as markdown
from primbench.report.table import MOST_ROWS, tables
from primbench.report.text import of_table as text
from primbench.results.record import Record, Worker
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement

PLACED = EffectivePlacement(cpus=[0], memory_policy="bind", memory_nodes=[1], rung="bind", threads=8)


def samples(median_s: float, spread: float = 0.002) -> Samples:
    """Seven samples whose interval is ``spread`` of the median to either side."""
    taken = [median_s * (1 + step * spread / 3) for step in range(-3, 4)]
    return Samples(samples_s=taken, calls_per_sample=1, taken_by="host clock", stopped="noise")


def case(**changes: Any) -> Case:
    fields: dict[str, Any] = {
        name: changes.pop(name) for name in ("m", "n", "k", "dtype", "alpha", "trans_a") if name in changes
    }
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64} | fields).parameters()
    return Case(**{"primitive": "gemm", "parameters": parameters, "backend": "numpy", "device": "cpu"} | changes)


def record(measurement: Measurement | None = None, **changes: Any) -> Record:
    outcome = {name: changes.pop(name) for name in ("status", "reason", "worker") if name in changes}
    given: dict[str, Any] = {"status": "ok", "worker": 0} | outcome
    return Record(case=case(**changes), measurement=measurement, started_utc="", duration_s=1.0, **given)


PLACE = replace(
    fingerprint.collect(gpus=False),
    devices=Devices(gpus=[Gpu(name="H100"), Gpu(name="H200")]),
    machine=Machine(kernel="6.1", architecture="x86_64", cpu_model="EPYC"),
)


def worker(**changes: Any) -> Worker:
    fields: dict[str, Any] = {
        "worker": 0,
        "pid": 1,
        "environment": PLACE,
        "backend": "numpy",
        "device": "cpu",
        "versions": {"numpy": "2.4"},
        "placement": PLACED,
    }
    return Worker(**fields | changes)


ON_CPU = Measurement(batch_s=samples(5e-6), wall_s=samples(7e-6), verified=True, flop=2 * 64**3, bytes_moved=3 * 64**2)
ON_GPU = Measurement(
    enqueue_s=samples(5.1e-6),
    stream_s=samples(2.72e-3),
    device_s=samples(2.71e-3),
    wall_s=samples(2.8e-3),
    trace=Trace(busy_s=samples(2.7e-3), kernels_per_call=1.5, kernels=["a", "b"]),
    verified=True,
    flop=137 * 10**9,
)


def table(*records: Record, workers: list[Worker] | None = None) -> Table:
    (found,) = tables(records, [worker()] if workers is None else workers)
    return found


def noted(found: Table) -> list[str]:
    """The notes below it."""
    return [note.text for note in found.notes]


def column(found: Table, name: str) -> list[str]:
    return [row[found.headings.index(name)] for row in found.rows]


def test_cpu_shows_batch_and_wall_and_rate() -> None:
    found = table(record(ON_CPU))
    assert "gemm  numpy 2.4  cpu EPYC  node 1  8 threads  (times: median a call)" == found.caption("  ")
    assert ["m", "n", "k", "dtype", "batch", "wall", "noise", "GFLOP/s", "check"] == found.headings
    assert [["64", "64", "64", "float32", "5.000 us", "7.00 us", "0.2%", "105", "ok"]] == found.rows
    assert [] == found.notes


def test_gpu_shows_the_chain_from_launch_to_wall_and_what_was_traced() -> None:
    on_gpu = worker(backend="torch", device="cuda:1", versions={"torch": "2.13"})
    found = table(record(ON_GPU, backend="torch", device="cuda:1"), workers=[on_gpu])
    assert found.caption("  ").startswith("gemm  torch 2.13  cuda:1 H200  node 1")
    expected = ["enqueue", "stream", "device", "busy", "wall", "noise", "TFLOP/s", "kernels", "check"]
    assert expected == found.headings[4:]
    assert ["1.5"] == column(found, "kernels")
    assert ["50.6"] == column(found, "TFLOP/s")


def test_columns_stand_two_spaces_apart_so_that_many_fit_a_screen() -> None:
    _, columns, row = text(table(record(ON_CPU))).splitlines()
    assert " m   n   k    dtype     batch     wall  noise  GFLOP/s  check" == columns
    assert "64  64  64  float32  5.000 us  7.00 us   0.2%      105  ok" == row


def test_a_percentile_has_its_decimal_point() -> None:
    launch = replace(case(), primitive="launch", parameters=build("launch", {}).parameters())
    tails = replace(samples(7e-6), samples_s=[7e-6] * 10_000)
    found = table(replace(record(Measurement(batch_s=samples(5e-6), wall_s=tails)), case=launch))
    assert ["7.00 us"] == column(found, "wall p99.9")


def test_rate_of_a_primitive_without_flop_is_in_bytes() -> None:
    assert ["2.46"] == column(table(record(replace(ON_CPU, flop=None))), "GB/s")


def test_what_is_unknown_is_a_dash() -> None:
    found = table(record(ON_CPU), record(status="skipped", reason="needs 2 TiB, 1 GiB free on this host", m=1))
    assert ["1", "64", "64", "float32", "-", "-", "-", "-", "skipped: needs 2 TiB, 1 GiB free on this host"] == (
        found.rows[1]
    )


def test_few_samples_have_no_noise() -> None:
    few = Samples(samples_s=[1e-3] * 5, calls_per_sample=1, taken_by="host clock", stopped="max time")
    assert ["-"] == column(table(record(Measurement(batch_s=few, wall_s=few))), "noise")


def test_noise_above_the_limit_is_starred_and_explained() -> None:
    noisy = Measurement(batch_s=samples(1e-3, spread=0.041), verified=True)
    found = table(record(noisy), record(ON_CPU, m=1))
    assert ["*4.1%", "0.2%"] == column(found, "noise")
    assert noted(found)[0].startswith("* the median is known no better than this, --max-noise asked 0.5%")


def test_clocks_held_back_are_noted() -> None:
    held = replace(ON_GPU, gpu=GpuReading(clocks_event_reasons=["sw power cap"]))
    assert ["clocks held back in some cases by: sw power cap"] == noted(table(record(held)))


def test_events_that_tell_another_time_are_noted_once() -> None:
    wrong = replace(ON_GPU, missing={"events": "events say so, the GPU's own timer otherwise"})
    assert ["events say so, the GPU's own timer otherwise"] == noted(table(record(wrong), record(wrong, m=65)))


# Microseconds seen on an H200: torch's convolution, whose algorithms each process tries anew, and cuDNN's by itself; a
# GRU with its gaps; a product at the power limit; an LSTM, with an overlap that is made, as the last but one; empty
# kernels, one by one and 64 and 512 in a graph; a graph of one; a copy of 512 bytes to the GPU.
@pytest.mark.parametrize(
    ("device_us", "busy_us", "kernels", "overlapped_us", "told"),
    [(272.7, 251.4, 6, None, True), (253.8, 254.3, 6, 0.0, False), (1426.7, 1256.6, 375, 0.0, False),
     (199.5, 210.8, 2, 0.0, False), (100.0, 130.0, 1, 0.0, True), (100.0, 130.0, 2, 1.0, True),
     (640.0, 863.0, 172, 300.0, False), (0.5, 0.608, 1, 0.0, False), (33.1, 46.2, 64, 0.0, False),
     (256.8, 366.1, 512, 0.013, False), (1.498, 0.704, 1, 0.0, False), (2.624, 0.927, 1, 0.0, False)],
)  # fmt: skip
def test_a_trace_of_other_kernels_is_told(
    device_us: float, busy_us: float, kernels: int, overlapped_us: float | None, told: bool
) -> None:
    overlapped_s = None if overlapped_us is None else overlapped_us * 1e-6
    trace = Trace(busy_s=samples(busy_us * 1e-6), kernels_per_call=kernels, kernels=["a"], overlapped_s=overlapped_s)
    found = table(record(replace(ON_GPU, device_s=samples(device_us * 1e-6), trace=trace)))
    assert told == any("busy does not fit device" in note for note in noted(found))
    assert (overlapped_us == 300.0) == any("may run concurrently" in note for note in noted(found))


def test_a_trace_of_a_graph_with_branches_may_have_them_in_a_row() -> None:
    # An LSTM of an H200: 1.27 times as long launch by launch, where nothing overlaps.
    trace = Trace(busy_s=samples(618e-6), kernels_per_call=169, kernels=["a"], overlapped_s=0.0)
    found = replace(ON_GPU, device_s=samples(488e-6), trace=trace, nodes_per_call=169.0)
    for path, told in ((None, True), (169.0, True), (140.0, False)):
        notes = noted(table(record(replace(found, longest_path_per_call=path))))
        assert told == any("busy does not fit device" in note for note in notes)
        assert told != any("may run concurrently" in note for note in notes)
    no_more = replace(found, longest_path_per_call=140.0, trace=replace(trace, busy_s=samples(500e-6)))
    assert [] == noted(table(record(no_more)))
    far_less = replace(found, longest_path_per_call=140.0, trace=replace(trace, busy_s=samples(100e-6)))
    assert any("busy does not fit device" in note for note in noted(table(record(far_less))))


def hampered(throttled_s: float, measurement: Measurement = ON_CPU) -> Measurement:
    host = HostReading(
        duration_s=0.8, cpu_time_s=0.8, voluntary_switches=0, involuntary_switches=0, throttled_s=throttled_s
    )
    return replace(measurement, host=host)


def test_disturbed_rows_are_marked_and_told_by_their_numbers() -> None:
    found = table(record(ON_CPU), record(hampered(0.31), m=1), record(hampered(0.0), m=2))
    assert ["0.2%", "!0.2%", "0.2%"] == column(found, "noise")
    assert ["! row 2: the CPU quota held it back for 310 ms of 800 ms"] == noted(found)


def test_disturbance_of_a_gpu_marks_its_row_beside_what_is_ordinary() -> None:
    reading = GpuReading(clocks_event_reasons=["sw power cap", "hw slowdown"], foreign_processes=[GpuProcess(pid=4711)])
    found = table(record(replace(ON_GPU, gpu=reading)), record(replace(ON_GPU, gpu=reading), m=1), record(ON_GPU, m=2))
    assert ["!0.2%", "!0.2%", "0.2%"] == column(found, "noise")
    assert [
        "! rows 1-2: pid 4711 held the GPU, too",
        "! rows 1-2: clocks held back by: hw slowdown",
        "clocks held back in some cases by: sw power cap",
    ] == noted(found)
    assert "! all rows: pid 4711" in noted(table(*[record(replace(ON_GPU, gpu=reading), m=m) for m in (1, 2)]))[0]


def test_marks_stand_together_and_without_a_noise() -> None:
    noisy = Measurement(batch_s=samples(1e-3, spread=0.041))
    few = Samples(samples_s=[1e-3] * 5, calls_per_sample=1, taken_by="host clock", stopped="max time")
    cells = [hampered(0.1, noisy), hampered(0.1, Measurement(batch_s=few))]
    assert ["!*4.1%", "!-"] == column(table(*[record(each, m=m) for m, each in enumerate(cells, 1)]), "noise")


def test_a_disturbance_of_many_rows_is_one_line_with_the_worst() -> None:
    notes = noted(table(*[record(hampered(0.01 * (m % 30)), m=m) for m in range(1, 31)]))
    assert ["! rows 1-29, most in row 29: the CPU quota held it back for 290 ms of 800 ms"] == notes


def test_many_disturbances_are_counted_and_left_to_the_export() -> None:
    gpus = [GpuReading(foreign_processes=[GpuProcess(pid=pid)]) for pid in range(1, 31)]
    notes = noted(table(*[record(replace(ON_GPU, gpu=gpu), m=m) for m, gpu in enumerate(gpus, 1)]))
    assert 6 == len(notes)
    assert notes[-1] == "! and 25 more: --csv has all, in its column `disturbed`"


def test_a_cpu_that_is_slow_for_no_counted_reason_is_one_line_of_all_rows_and_marks_none() -> None:
    slow, quick = ([(0, 25e-6), *((index, loop_s) for index in range(1, 4))] for loop_s in (40e-6, 26e-6))
    timed = [replace(ON_CPU, batch_s=replace(samples(1e-3), loops_s=loops_s)) for loops_s in (slow, quick)]
    found = table(*[record(timed[m > 15], m=m) for m in range(1, 21)])
    assert ["0.2%"] * 20 == column(found, "noise")
    assert [
        "the CPU was slow beside 56.2% of all samples: a loop of Python took over 15.0% longer than at its quickest, "
        "which times of the host have in them"
    ] == noted(found)
    assert [] == noted(table(*[record(timed[m > 4], m=m) for m in range(1, 21)]))


def test_a_result_that_was_not_checked_says_so() -> None:
    assert ["not checked"] == column(table(record(replace(ON_CPU, verified=None))), "check")


def test_fields_at_their_default_have_no_column_others_do() -> None:
    assert {"alpha", "trans_a"}.isdisjoint(table(record(ON_CPU)).headings)
    found = table(record(ON_CPU, alpha=0.5, trans_a=True), record(ON_CPU, alpha=2.0))
    assert ["0.5", "2.0"] == column(found, "alpha")
    assert ["yes", "no"] == column(found, "trans_a")


VARYING: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "backend": ([{"backend": "numpy"}, {"backend": "numba"}], ["numpy", "numba"]),
    "device": ([{"device": "cuda:0"}, {"device": "cuda:1"}], ["cuda:0", "cuda:1"]),
    "cache": ([{"method": Method(cache="hot")}, {"method": Method(cache="cold")}], ["hot", "cold"]),
    "node": ([{"placement": Placement(numa_node=1)}, {}], ["1", "-"]),
    "cpu node": ([{"placement": Placement(cpu_node=1)}, {}], ["1", "-"]),
    "cpu kind": ([{"placement": Placement(cpu_kind="performance")}, {}], ["performance", "-"]),
    "mem node": ([{"placement": Placement(mem_nodes=(0, 1))}, {}], ["0-1", "-"]),
    "mem policy": ([{"placement": Placement(numa_node=1, mem_policy="preferred")}, {}], ["preferred", "-"]),
    "cpus": ([{"placement": Placement(cpus=(0, 1, 2, 8))}, {}], ["0-2,8", "-"]),
    "threads": ([{"placement": Placement(threads=4)}, {}], ["4", "-"]),
    "process": ([{"process": 0}, {"process": 1}], ["0", "1"]),
    "set": ([{"labels": {"set": "training"}}, {}], ["training", "-"]),
    "application": (
        [{"labels": {"application": "speech"}}, {"labels": {"application": "vision"}}],
        ["speech", "vision"],
    ),
}


@pytest.mark.parametrize("name", VARYING)
def test_rows_that_differ_in_their_place_can_be_told_apart(name: str) -> None:
    changes, expected = VARYING[name]
    records = [record(ON_CPU, **change) for change in changes]
    assert expected == column(table(*records), name)
    assert name not in table(records[1]).headings


def test_rows_of_a_study_name_their_arm_even_where_all_are_of_one() -> None:
    assert ["host", "half", "-"] == column(
        table(record(ON_CPU, arm="host"), record(ON_CPU, arm="half"), record(ON_CPU)), "arm"
    )
    assert ["host", "host"] == column(table(record(ON_CPU, arm="host"), record(ON_CPU, arm="host")), "arm")
    assert "arm" not in table(record(ON_CPU)).headings


@pytest.mark.parametrize(
    ("heading", "cells", "ids"),
    [
        ("gemm/training/", ["001", "002"], ["gemm/training/001", "gemm/training/002"]),
        ("gemm/", ["training/001", "device/001"], ["gemm/training/001", "gemm/device/001"]),
        ("id", ["a", "b"], ["a", "b"]),
        ("id", ["a/b", "a"], ["a/b", "a"]),
        ("a/", ["b", "-"], ["a/b", None]),
    ],
)
def test_ids_share_their_folders_in_the_heading(heading: str, cells: list[str], ids: list[str | None]) -> None:
    assert cells == column(table(*(record(ON_CPU, labels={"id": each} if each else {}) for each in ids)), heading)


FIGURES = {
    "lag_s": 3e-6, "bus_bytes_per_s": 2e9, "sent_bytes": 3072, "busy_fraction": 0.25, "#wrong": 12.0,
    "wall_p99_s": None,
}  # fmt: skip


def test_figures_of_a_primitive_are_columns_by_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "figures", lambda self, measured: dict(FIGURES) | {"lag_s": 3e-6 * self.m})
    found = table(record(ON_CPU, m=1), record(ON_CPU, m=1000))
    expected = {"lag": ["3.00 us", "3.00 ms"], "bus GB/s": ["2", "2"], "busy": ["25.0%"] * 2, "#wrong": ["12", "12"]}
    expected["sent"] = ["3 KiB"] * 2
    assert expected == {name: column(found, name) for name in expected}
    assert "wall p99" not in found.headings  # nobody knows it


def test_figures_are_asked_for_whatever_became_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "figures", lambda self, measured: {"calls": None if measured.batch_s is None else 1.0})
    assert ["-", "1"] == column(table(record(status="failed", reason="x", m=1), record(ON_CPU)), "calls")


class Doubled:
    """A yardstick that is twice as slow as what is measured."""

    def figures(self, record: Record) -> dict[str, float | None]:
        found = record.measurement.batch_s if record.measurement else None
        return {"theirs_s": 2 * found.median_s if found else None, "ratio": 0.5 if found else None}

    def notes(self, records: Sequence[Record]) -> list[str]:
        return [f"{len(records)} of gemm"]


def test_yardstick_adds_its_columns_and_notes() -> None:
    (found,) = tables([record(ON_CPU), record(m=1)], [], None, [Doubled()])
    assert (["10.0 us", "-"], ["0.500", "-"]) == (column(found, "theirs"), column(found, "ratio"))
    assert ["2 of gemm"] == noted(found)


@pytest.mark.parametrize(("cell", "ratio"), [("1.003", 1.0031), ("0.0123", 0.01234), ("275.620", 275.62)])
def test_ratio_shows_thousandths_near_1_and_digits_far_below(cell: str, ratio: float) -> None:
    class Fixed(Doubled):
        def figures(self, record: Record) -> dict[str, float | None]:
            return {"ratio": ratio}

    (found,) = tables([record(ON_CPU)], [], None, [Fixed()])
    assert [cell] == column(found, "ratio")


def test_cold_cache_is_claimed_only_where_all_are_cold() -> None:
    cold, hot = record(ON_CPU, method=Method(cache="cold")), record(ON_CPU)
    assert "  cold cache  " in table(cold).caption("  ")
    assert "cold cache" not in table(cold, hot).caption("  ")


def test_title_names_a_version_and_a_place_only_where_every_worker_has_it() -> None:
    elsewhere = replace(PLACED, memory_nodes=[0])
    second = worker(worker=1, versions={"numpy": "2.5"}, placement=elsewhere)
    found = table(record(ON_CPU), record(ON_CPU, worker=1, m=1), workers=[worker(), second])
    assert "gemm  numpy  cpu EPYC  (times: median a call)" == found.caption("  ")


def test_workers_that_made_no_row_of_the_table_do_not_count() -> None:
    other = worker(worker=7, versions={"torch": "2"}, backend="torch")
    assert table(record(ON_CPU)).caption("  ") == table(record(ON_CPU), workers=[worker(), other]).caption("  ")


@pytest.mark.parametrize("device", ["cuda:7", "cuda:x"])
def test_device_that_the_environment_does_not_know_stands_alone(device: str) -> None:
    found = table(record(ON_GPU, device=device), workers=[worker(device=device)])
    assert f"gemm  numpy 2.4  {device}  node 1" in found.caption("  ")


def test_records_without_workers_have_a_title() -> None:
    assert "gemm  numpy  cpu  (times: median a call)" == table(record(ON_CPU), workers=[]).caption("  ")


def test_one_thread_is_singular_and_memory_that_is_not_placed_unnamed() -> None:
    in_turns = worker(placement=replace(PLACED, memory_policy="interleave", memory_nodes=[0, 1]))
    assert "node 0,1 interleave" in table(record(ON_CPU), workers=[in_turns]).caption("  ")
    alone = worker(placement=replace(PLACED, rung="none", threads=1))
    found = table(record(ON_CPU), workers=[alone])
    assert "gemm  numpy 2.4  cpu EPYC  1 thread  (times: median a call)" == found.caption("  ")


def test_no_records_make_no_table() -> None:
    assert [] == tables([])


def test_text_is_right_aligned_and_ends_in_one_line_end() -> None:
    title, columns, first, second, end = text(table(record(ON_CPU), record(ON_CPU, m=4096))).split("\n")
    assert ("gemm", "") == (title[:4], end)
    assert ["   m", "  64", "4096"] == [line[:4] for line in (columns, first, second)]


def test_markdown_keeps_bars_and_stars_as_text() -> None:
    failed = record(status="failed", reason="RuntimeError: a|b *c*")
    found = markdown(table(failed, record(Measurement(batch_s=samples(1e-3, spread=0.1)), m=1)))
    assert r"failed: RuntimeError: a\|b \*c\*" in found
    assert r"\*10.0%" in found
    grid = [line for line in found.splitlines() if line.startswith("|")]
    assert 1 == len({line.replace(r"\|", "").count("|") for line in grid})
    assert "\n\n\\* the median" in found


def test_tables_of_a_decoded_record_are_those_of_the_record() -> None:
    original = record(ON_GPU, device="cuda:0")
    decoded = msgspec.json.decode(msgspec.json.encode(original), type=Record)
    assert text(table(original)) == text(table(decoded))


def test_placement_that_was_not_had_is_a_note_once() -> None:
    refused = replace(PLACED, rung="first touch", reasons={"set_mempolicy": "EPERM", "threads": "no pool"})
    found = table(record(ON_CPU), record(ON_CPU, m=1, worker=1),
                  workers=[worker(placement=refused), worker(worker=1, placement=refused)])  # fmt: skip
    assert ["not placed as asked: memory is where it was first touched: set_mempolicy: EPERM"] == noted(found)
    fell_back = worker(placement=replace(PLACED, rung="none", reasons={"numa_node": "--numa-node auto: no device"}))
    assert ["not placed as asked: --numa-node auto: no device"] == noted(table(record(ON_CPU), workers=[fell_back]))
    assert [] == noted(table(record(ON_CPU)))
    asked = replace(record(ON_CPU), case=replace(case(), placement=Placement(threads=8)))
    fewer = worker(placement=replace(PLACED, threads=2))
    assert ["not placed as asked: threads=8, and the largest pool has 2 (numpy)"] == noted(
        table(asked, workers=[fewer])
    )


def test_a_field_called_as_a_metric_has_another_heading() -> None:
    parameters = build("batched_gemm", {"batch": 3, "m": 4, "n": 5, "k": 6}).parameters()
    (found,) = tables([record(ON_CPU, primitive="batched_gemm", parameters=parameters)], [worker()])
    assert ["problem batch", "batch"] == [each for each in found.headings if "batch" in each]
    assert len(found.headings) == len({*found.headings})


def test_of_more_rows_than_anybody_reads_the_first_are_shown_and_the_others_counted() -> None:
    records = [record(m=number) for number in range(1, MOST_ROWS + 3)]
    records[-1] = record(m=1, status="failed", reason="crash")
    (found,) = tables(records)
    assert (len(found.columns[0].values), found.notes[0].words) == (
        MOST_ROWS,
        "and 2 more rows, of which nothing is said here: 1 ok, 1 failed; --csv and --json have all",
    )
