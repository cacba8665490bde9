"""Results of pytest-benchmark, https://pytest-benchmark.readthedocs.io: --benchmark-json, and files of .benchmarks/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.compare.sessions import began
from primbench.history.foreign import ForeignRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from primbench.history.series import Observed

_FACTS = ("python_version", "python_implementation", "python_compiler", "release", "system")


def run_of(path: Path, found: Mapping[str, Any]) -> Observed | None:
    """None where the file is none of pytest-benchmark's. A node is taken for a start of one machine."""
    if not {"machine_info", "benchmarks", "datetime"} <= found.keys():
        return None
    info, commit = found["machine_info"], (found.get("commit_info") or {}).get("id")
    run = ForeignRun.of(path, "machine_info", _model(info), {name: info.get(name) for name in _FACTS}, commit)
    around = run.around()
    times = {each["fullname"]: float(each["stats"]["median"]) for each in found["benchmarks"]}
    made = [run.observation(name, "median", time_s, around) for name, time_s in times.items() if time_s > 0]
    return run.observed(made, began(found["datetime"]), boot=info.get("node"))


def _model(info: Mapping[str, Any]) -> object:
    """Of the CPU, which versions of the program name in three ways."""
    cpu = info.get("cpu")
    named = (cpu.get("brand_raw") or cpu.get("brand")) if isinstance(cpu, dict) else cpu
    return named or info.get("machine")
