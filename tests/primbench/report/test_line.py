from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primbench.kernels.gemm import Gemm
from primbench.kernels.memcpy import Memcpy
from primbench.measurement import Measurement, Samples
from primbench.problem import Problem
from primbench.report.line import fit, line_notes
from primbench.report.table import tables
from primbench.results.record import Record
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement

SIZES = (4096, 65536, 2**20, 2**24)


@given(st.floats(1e-7, 1e-2), st.integers(10, 24), st.sets(st.integers(-8, 8), min_size=2))
def test_points_on_a_line_give_that_line(latency_s: float, half: int, powers: set[int]) -> None:
    """At sizes of 2^-8 to 2^8 times the one that reaches half of the bandwidth."""
    rate = 2**half / latency_s
    line = fit([(2 ** (half + power), latency_s * (1 + 2.0**power)) for power in powers])
    assert line is not None
    assert line.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert line.size_bytes_per_s == pytest.approx(rate, rel=1e-6)
    assert line.half_size_bytes == pytest.approx(2**half, rel=1e-6)
    assert line.misfit < 1e-9


def test_small_sizes_decide_the_latency_and_large_ones_the_bandwidth() -> None:
    line = fit([(64, 2e-6), (4096, 2.1e-6), (2**28, 5e-3), (2**30, 20e-3)])
    assert line is not None
    assert line.latency_s == pytest.approx(2e-6, rel=0.03)
    assert line.size_bytes_per_s == pytest.approx(53.7e9, rel=0.03)
    assert line.half_size_bytes == pytest.approx(107_400, rel=0.06)


def test_times_that_fall_or_grow_faster_than_the_size_have_no_line() -> None:
    assert fit([(1, 4.0), (2, 3.0), (3, 2.0)]) is None
    assert fit([(10, 1.0), (20, 4.0), (40, 16.0)]) is None
    assert fit([(8, 1.0), (8, 2.0)]) is None


def record(problem: Problem, time_s: float | None, *, backend: str = "numpy", status: str = "ok") -> Record:
    batch = time_s and Samples(samples_s=[time_s] * 6, calls_per_sample=1, taken_by="host clock", stopped="noise")
    case = Case(
        primitive=problem.primitive,
        parameters=problem.parameters(),
        backend=backend,
        device="cpu",
        method=Method(),
        placement=Placement(),
    )
    measured = Measurement(batch_s=batch, bytes_moved=problem.bytes_moved()) if batch else None
    return Record(
        case=case, status=status, reason=None, measurement=measured, worker=0, started_utc="", duration_s=0.0  # type: ignore[arg-type]
    )  # fmt: skip


def sweep(direction: str, sizes: Sequence[int] = SIZES, backend: str = "numpy", rate: float = 50e9) -> list[Record]:
    return [record(Memcpy(size, direction), 2e-6 + size / rate, backend=backend) for size in sizes]


def test_a_sweep_has_its_latency_bandwidth_and_half_size_below_the_table() -> None:
    (note,) = line_notes(sweep("h2d"))
    assert note.startswith("h2d pinned: latency 2.00 us, bandwidth 50 GB/s, half of it at 97.7 KiB; fitted to 4 times")
    assert note in [each.text for each in tables(sweep("h2d"))[0].notes]


def test_the_bandwidth_counts_as_the_table_does() -> None:
    (note,) = line_notes(sweep("d2d"))
    assert note.startswith("d2d device: latency 2.00 us, bandwidth 100 GB/s, half of it at 97.7 KiB")


def test_each_direction_and_backend_has_a_line_of_its_own() -> None:
    notes = line_notes(sweep("h2d") + sweep("d2h", rate=25e9) + sweep("h2d", backend="torch"))
    assert ["h2d pinned numpy cpu", "d2h pinned numpy cpu", "h2d pinned torch cpu"] == [
        note.partition(":")[0] for note in notes
    ]
    assert "bandwidth 25 GB/s" in notes[1]


def test_three_sizes_say_nothing() -> None:
    assert [] == line_notes(sweep("h2d", SIZES[:3]) + sweep("h2d", SIZES[:1]))


def test_cases_without_a_time_are_left_out() -> None:
    failed = [record(Memcpy(2**26, "h2d"), None, status="failed")]
    assert line_notes(sweep("h2d")) == line_notes(sweep("h2d") + failed)
    assert [] == line_notes(failed)


def test_times_on_no_line_say_so() -> None:
    quick = [record(Memcpy(size, "h2h"), size / rate) for size, rate in zip(SIZES, (1e9, 40e9, 20e9, 5e9), strict=True)]
    assert ["h2h pageable: no line fits these times: they have no one latency and bandwidth"] == line_notes(quick)


def test_a_primitive_of_several_sizes_has_no_line() -> None:
    assert [] == line_notes([record(Gemm(n, n, n), n * 1e-9) for n in (16, 32, 64, 128, 256)])
