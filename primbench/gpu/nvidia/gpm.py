"""How much of a GPU was at work between two moments, by its own counters: NVML's GPM, on Hopper and what came after it.

Source: NVML API reference, GPM Structures and GPM Functions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from primbench.gpu.nvidia.nvml import ask, library
from primbench.system.files import attempt
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.gpu.nvidia.nvml import NvmlDevice

LEAST_S = 20e-3  # between two moments; what lies within is too short for shares of it to mean much
_PERCENT, _MIB = 0.01, 2.0**20
# Name -> NVML's constant, and what one of its units is in SI.
_METRICS = {
    "sm_active_fraction": ("NVML_GPM_METRIC_SM_UTIL", _PERCENT),
    "tensor_active_fraction": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _PERCENT),
    "dram_bandwidth_fraction": ("NVML_GPM_METRIC_DRAM_BW_UTIL", _PERCENT),
    "pcie_tx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB),
    "pcie_rx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB),
    "nvlink_tx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MIB),
    "nvlink_rx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MIB),
}

EVERY = tuple(_METRICS)
NAMES = tuple(name for name in EVERY if not name.startswith("nvlink"))  # which many boards have none of

ReadShares = Callable[[dict[str, str]], dict[str, float]]
"""By name, of the time since it was called last; those that cannot be had are left out, with the reason."""


@contextmanager
def shares(gpu: NvmlDevice, missing: dict[str, str], names: Sequence[str] = NAMES) -> Iterator[ReadShares | None]:
    """What tells them until the end of the block; None, with the reason for each in ``missing``, where nothing can."""
    with ExitStack() as samples:
        begun = attempt(missing, "gpm", lambda: _begun(gpu, names, samples))
        if begun is None:
            missing |= dict.fromkeys(names, missing.pop("gpm"))
        yield begun


def _begun(gpu: NvmlDevice, names: Sequence[str], samples: ExitStack) -> ReadShares:
    """Raises LookupError."""
    if not ask("nvmlGpmQueryDeviceSupport", gpu.board).isSupportedDevice:
        raise LookupError("this GPU has no GPM counters: those before Hopper do not")
    pair = [_sample(samples), _sample(samples)]
    _take(gpu, pair[0])
    taken_s = time.monotonic()

    def since_last(missing: dict[str, str]) -> dict[str, float]:
        nonlocal taken_s
        if time.monotonic() - taken_s < LEAST_S:
            missing |= dict.fromkeys(names, f"the counters say nothing of less than {format_time(LEAST_S)}")
            return {}
        taken_s = time.monotonic()
        found = attempt(missing, "gpm", lambda: _between(gpu, pair, names, missing))
        if found is None:
            missing |= dict.fromkeys(names, missing.pop("gpm"))
        return found or {}

    return since_last


def _sample(samples: ExitStack) -> Any:
    made = ask("nvmlGpmSampleAlloc")
    samples.callback(ask, "nvmlGpmSampleFree", made)
    return made


def _take(gpu: NvmlDevice, sample: Any) -> None:
    if gpu.handle is gpu.board:
        ask("nvmlGpmSampleGet", gpu.board, sample)
    else:
        ask("nvmlGpmMigSampleGet", gpu.board, ask("nvmlDeviceGetGpuInstanceId", gpu.handle), sample)


def _between(gpu: NvmlDevice, pair: list[Any], names: Sequence[str], missing: dict[str, str]) -> dict[str, float]:
    """What happened since the first of the pair was taken; the second is taken now, and the first one next time."""
    nvml = library()
    _take(gpu, pair[1])
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(names)
    asked.sample1, asked.sample2 = pair
    for metric, name in zip(asked.metrics, names, strict=False):
        metric.metricId = getattr(nvml, _METRICS[name][0])
    ask("nvmlGpmMetricsGet", asked)
    pair.reverse()
    found = {}
    for metric, name in zip(asked.metrics, names, strict=False):
        constant, unit = _METRICS[name]
        if metric.nvmlReturn != nvml.NVML_SUCCESS:
            missing[name] = f"nvmlGpmMetricsGet: {constant}: NVML error {metric.nvmlReturn}"
        elif math.isfinite(metric.value):
            found[name] = metric.value * unit
        else:
            missing[name] = f"nvmlGpmMetricsGet: {constant}: {metric.value}"
    return found
