"""What a case used while it ran, sampled again and again by a process beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from primbench.quantities import Amount, Seconds, Time, Whole

MOST_SAMPLES = 1000
"""Of a series; one that has as many loses every second of them, and the next come half as often."""

HOST = ("host_rss_bytes", "host_pss_bytes", "group_bytes")
GPU = (
    "gpu_process_bytes", "gpu_device_bytes", "nvml_gpu_fraction", "nvml_memory_fraction",
    "sm_active_fraction", "tensor_active_fraction", "dram_bandwidth_fraction", "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s", "sm_clock_hz", "held_back_fraction",
)  # fmt: skip
SERIES = (*HOST, *GPU)

UsageReader = Callable[[dict[str, str]], Mapping[str, float | None]]
"""Gives series by name; None for one that cannot be read, with the reason in the dictionary."""


def split_unit(name: str) -> tuple[str, str]:
    """What a series or a figure is of, and its unit: bytes_per_s, bytes, fraction, hz or s; "" of what has none."""
    unit = next((each for each in ("bytes_per_s", "bytes", "fraction", "hz", "s") if name.endswith(f"_{each}")), "")
    return name.removesuffix(f"_{unit}"), unit


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity, sample by sample; its unit is the end of the name that it has in ``OverTime.series``."""

    times_s: Annotated[list[Seconds], msgspec.Meta(min_length=1, max_length=MOST_SAMPLES)]
    """Time of each sample, from the start of the case."""
    values: list[Amount]
    """Value of each sample; a share or a rate is that of the time since the sample before, be that one dropped by now.
    """

    def __post_init__(self) -> None:
        """Raises ValueError, which makes a line of a file that is not so be refused."""
        if len(self.values) != len(self.times_s):
            raise ValueError(f"{len(self.values)} values for {len(self.times_s)} times_s")

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def peak(self) -> float:
        """The largest sample: what came and went between two of them is not in it."""
        return max(self.values)


class OverTime(msgspec.Struct, frozen=True, kw_only=True):
    """What a case used from before its inputs were made until after its last sample, as phases_s follow each other."""

    series: dict[str, Series]
    """By name: of this process and those it started, which of several ranks are those of rank 0, of their control
    group, and of the whole GPU, whoever uses it.

    Of processes host_rss_bytes (pages that they share count in each of them), host_pss_bytes (such pages count once in
    all) and gpu_process_bytes; of their control group group_bytes, with its page cache; of a GPU:

    * nvml_gpu_fraction, of the time, in which any kernel ran, be it on one SM of a hundred, and nvml_memory_fraction,
      in which memory was read or written at all, over windows of 1/6 to 1 s that end before the sample;
    * sm_active_fraction and tensor_active_fraction, of the SMs' time, in which they had work, and in which their tensor
      pipes had, and dram_bandwidth_fraction, of what the memory can do at most, by GPM, since the sample before;
    * held_back_fraction, of the time since the sample before, in which a policy (power, thermal, sync boost) held the
      clocks down, the one that did so longest, and sm_clock_hz at that moment.
    """
    interval_s: Time
    """Between two samples, at the end; a series that is dear to read has fewer."""
    cost_s: Time
    """CPU time that the sampling process spent on each, in the mean."""
    host_peak_bytes: Whole | None = None
    """The most that this process, without those it started, held of host memory while the case ran, by the kernel's own
    mark.
    """
    gpu_allocated_peak_bytes: Whole | None = None
    """The most that torch's allocator had handed out."""
    missing: dict[str, str] = {}
    """Series or field -> why it could not be had."""

    @property
    def most_host_bytes(self) -> float | None:
        """Host memory of this process and those it started, at least: the mark is of one, the samples have gaps."""
        return max(filter(None, (self.host_peak_bytes, self.peak("host_rss_bytes"))), default=None)

    def mean(self, name: str) -> float | None:
        """Of a series; None where it could not be had."""
        return self.series[name].mean if name in self.series else None

    def peak(self, name: str) -> float | None:
        """Of a series; None where it could not be had."""
        return self.series[name].peak if name in self.series else None
