"""Series of samples, and what is said of them."""

from __future__ import annotations

import msgspec
import pytest

from primbench.gpu.nvidia.gpm import NAMES
from primbench.measurement.over_time import GPU, MOST_SAMPLES, SERIES, OverTime, Series, split_unit


def series(*values: float) -> Series:
    return Series(times_s=[0.1 * place for place in range(len(values))], values=list(values))


def test_mean_and_peak_of_the_samples() -> None:
    assert (4.0, 9.0) == (series(1, 2, 9).mean, series(1, 2, 9).peak)
    found = OverTime(series={"group_bytes": series(1, 3)}, interval_s=0.1, cost_s=1e-3)
    assert (2.0, 3.0) == (found.mean("group_bytes"), found.peak("group_bytes"))
    assert (None, None) == (found.mean("gpu_device_bytes"), found.peak("gpu_device_bytes"))


def test_times_and_values_go_together() -> None:
    with pytest.raises(ValueError, match="1 values for 2 times_s"):
        Series(times_s=[0.0, 1.0], values=[5.0])


@pytest.mark.parametrize("count", [0, MOST_SAMPLES + 1])
def test_a_series_of_a_file_has_samples_and_no_more_than_fit(count: int) -> None:
    whole = msgspec.json.encode({"times_s": [1.0] * MOST_SAMPLES, "values": [2.0] * MOST_SAMPLES})
    assert 2.0 == msgspec.json.decode(whole, type=Series).mean
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"times_s": [1.0] * count, "values": [2.0] * count}), type=Series)


@pytest.mark.parametrize(
    ("mark", "sampled", "most"), [(7, 9.0, 9.0), (11, 9.0, 11.0), (None, 9.0, 9.0), (7, None, 7.0)]
)
def test_host_memory_is_the_larger_of_two_lower_bounds(mark: int | None, sampled: float | None, most: float) -> None:
    """Of a process by its mark, and of it with its children by samples."""
    found = {} if sampled is None else {"host_rss_bytes": series(1, sampled)}
    assert most == OverTime(series=found, interval_s=0.1, cost_s=0.0, host_peak_bytes=mark).most_host_bytes


def test_host_memory_that_nobody_told_is_unknown() -> None:
    assert None is OverTime(series={}, interval_s=0.1, cost_s=0.0).most_host_bytes


def test_units_are_the_ends_of_names() -> None:
    assert {"bytes", "fraction", "bytes_per_s", "hz"} == {split_unit(name)[1] for name in SERIES}
    assert ("pcie_tx", "bytes_per_s") == split_unit("pcie_tx_bytes_per_s")
    assert len(SERIES) == len({split_unit(name)[0] for name in SERIES}), "a stem stands for one series"


def test_the_gpus_own_counters_are_among_the_series() -> None:
    assert set(NAMES) < set(GPU)
