"""Results of Google Benchmark, https://github.com/google/benchmark: --benchmark_format=json."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from primbench.compare.sessions import began
from primbench.history.foreign import ForeignRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from primbench.history.series import Observed

_FACTS = ("library_version", "library_build_type", "cpu_scaling_enabled", "mhz_per_cpu", "num_cpus")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def run_of(path: Path, found: Mapping[str, Any]) -> Observed | None:
    """None where the file is none of Google Benchmark's. Of repetitions it takes the median."""
    if not {"context", "benchmarks"} <= found.keys():
        return None
    context = found["context"]
    run = ForeignRun.of(path, "context", context.get("host_name"), {name: context.get(name) for name in _FACTS})
    around = run.around()
    times: dict[str, list[float]] = {}
    for each in found["benchmarks"]:
        if each.get("run_type", "iteration") == "iteration" and each["real_time"] > 0:
            times.setdefault(each["name"], []).append(each["real_time"] * _SECONDS[each.get("time_unit", "ns")])
    made = [run.observation(name, "real_time", median(each), around) for name, each in times.items()]
    return run.observed(made, began(context["date"]))
