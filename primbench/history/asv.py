"""Results of asv: ``results/MACHINE/COMMIT-ENVIRONMENT.json``, https://asv.readthedocs.io/en/stable/dev.html.

A run stands where its commit does in time. Files of before version 2 have a table a benchmark, later ones a row each.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from primbench.history.foreign import ForeignRun, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from primbench.history.series import Observed, RunValue

_OF_TIME = re.compile(r"(?:^|\.)(?:time(?:raw)?_|Time[A-Z_])[^.]*$")
"""Names by which asv knows a benchmark of times: https://asv.readthedocs.io/en/stable/writing_benchmarks.html"""
_NOT_OF_SPEED = ("machine", "ram")


def run_of(path: Path, found: Mapping[str, Any]) -> Observed | None:
    """None where the file is none of asv's."""
    if not {"commit_hash", "results", "params"} <= found.keys():
        return None
    params = found["params"]
    facts = {name: value for name, value in params.items() if name not in _NOT_OF_SPEED}
    machine = params.get("machine") or path.parent.name
    run = ForeignRun.of(path, "asv", machine, facts | (found.get("requirements") or {}), found["commit_hash"])
    rows = dict(_rows(found))
    made = [each for name, row in rows.items() for each in _observations(run, name, row, found.get("env_name"))]
    begun = [moment(each["started_at"]) for each in rows.values() if isinstance(each.get("started_at"), int | float)]
    return run.observed(made, moment(found["date"]), started=min(begun, default=None), boot=run.machine)


def _observations(run: ForeignRun, name: str, row: Mapping[str, Any], environment: str | None) -> Iterator[RunValue]:
    code = {"benchmark_version": row["version"]} if row.get("version") else {}
    around = run.around(**code)
    for parameters, time_s in _times(row):
        words = f"{name}({', '.join(parameters)})" if parameters else name
        yield run.observation(f"{words} in {environment}" if environment else words, "result", time_s, around)


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    columns = found.get("result_columns")
    started, versions = found.get("started_at") or {}, found.get("benchmark_version") or {}
    for name, each in found["results"].items():
        if not _OF_TIME.search(name):
            continue
        if columns and isinstance(each, list):
            yield name, dict(zip(columns, each, strict=False))
        else:
            plain = each if isinstance(each, dict) else {"result": [each]}
            yield name, plain | {"started_at": started.get(name), "version": versions.get(name)}


def _times(row: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Of each combination of parameters that was timed."""
    times = row.get("result")
    parameters = itertools.product(*(row.get("params") or []))
    for values, time_s in zip(parameters, times if isinstance(times, list) else [], strict=False):
        if isinstance(time_s, int | float) and 0 < time_s < float("inf"):
            yield tuple(map(str, values)), float(time_s)
