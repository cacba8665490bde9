"""What a measurement is shown as where Python shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from primbench.measurement import Measurement, Samples, Trace
from primbench.results import file as results_file

REFERENCES = sorted((Path(__file__).parents[2] / "suites/reference").glob("*.jsonl"))


def samples(median_s: float, calls: int = 1) -> Samples:
    return Samples(samples_s=[median_s] * 7, calls_per_sample=calls, taken_by="graph", stopped="noise")


def test_every_time_that_was_taken_is_shown_with_the_rates() -> None:
    trace = Trace(busy_s=samples(4e-6), kernels_per_call=1, kernels=["k"])
    found = Measurement(
        device_s=samples(5e-6),
        trace=trace,
        others={"sealed_s": samples(7e-6)},
        flop=10**6,
        bytes_moved=10**4,
        verified=True,
    )
    shown = "Measurement(device=5.0000 us, busy=4.0000 us, sealed=7.0000 us, 200 GFLOP/s, 2 GB/s, verified)"
    assert shown == repr(found)
    assert "Measurement()" == repr(Measurement())


def test_samples_are_counted() -> None:
    assert "Samples(5.0000 us, 7 samples of 3 calls, graph)" == repr(samples(5e-6, calls=3))
    assert "Samples(5.0000 us, 7 samples, graph)" == repr(samples(5e-6))


@pytest.mark.parametrize("path", REFERENCES[:1], ids=lambda path: path.stem)
def test_those_of_a_file_take_a_line_each(path: Path) -> None:
    shown = [repr(record.measurement) for record in results_file.read(path).records]
    assert 0 < max(map(len, shown)) < 200


@pytest.mark.parametrize(
    ("nodes", "path", "overlapped_s", "gap_s"),
    [(None, None, None, 1e-6), (4.0, None, 0.0, 1e-6), (4.0, 4.0, 0.1e-6, 1e-6), (4.0, 3.0, 0.0, None),
     (4.0, 4.0, 1e-6, None)],
)  # fmt: skip
def test_gaps_are_told_of_kernels_that_run_one_by_one(
    nodes: float | None, path: float | None, overlapped_s: float | None, gap_s: float | None
) -> None:
    trace = Trace(busy_s=samples(16e-6), kernels_per_call=4, kernels=["k"], overlapped_s=overlapped_s)
    found = Measurement(device_s=samples(20e-6), trace=trace, nodes_per_call=nodes, longest_path_per_call=path)
    assert (gap_s is None) == found.has_concurrent_kernels
    assert gap_s == pytest.approx(found.gap_per_kernel_s)
