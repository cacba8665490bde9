"""Ten studies of a host against itself, recorded: 30 cases on two busy virtual cores, NumPy and torch, 5 pairs each.

``primbench study --arm host --self --pairs 5 --seed 0`` to 9; kept are the median and the mean of a process and case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from primbench.compare.comparison import Comparison
from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.results.file import Results
from primbench.spec.case import Case

RECORDED = json.loads((Path(__file__).parents[1] / "fixtures/same-host.json").read_text())
CASE = Case(primitive="gemm", parameters={"m": 64, "n": 64, "k": 64}, backend="numpy", device="cpu")
CASES = [replace(CASE, labels={"recorded": name}) for name in RECORDED["cases"]]
MOST_FALSE_ALARMS = 2  # studies of ten: at q = 5 %, more of them have one in a chance of 1 %


def samples(median_s: float, mean_s: float) -> Samples:
    """Seven with this median, and this mean where it is not far below."""
    times_s = [median_s] * 6 + [max(7 * mean_s - 6 * median_s, median_s / 100)]
    return Samples(samples_s=times_s, calls_per_sample=1, taken_by="host clock", stopped="noise")


def compared(made_study: Callable[..., Results], study: list[Any], scale: float) -> Comparison:
    """scale: what the other arm takes longer by."""
    numbers = dict(zip(RECORDED["cases"], study, strict=True))

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        median_s, mean_s = numbers[case.labels["recorded"]][arm == "podman"][pair]
        factor = scale if arm == "podman" else 1.0
        return Measurement(batch_s=samples(factor * median_s, factor * mean_s))

    return compare(made_study(["host", "podman"], CASES, measured, pairs=5))


def different(made_study: Callable[..., Results], scale: float) -> list[int]:
    """Of each study, the cases that are called slower or faster."""
    return [
        sum(case.verdict in ("slower", "faster") for case in compared(made_study, study, scale).arms[0].cases)
        for study in RECORDED["studies"]
    ]


def test_what_is_not_there_is_not_found(made_study: Callable[..., Results]) -> None:
    assert MOST_FALSE_ALARMS >= sum(count > 0 for count in different(made_study, 1.0))


def test_what_is_there_is_found(made_study: Callable[..., Results]) -> None:
    """As far as processes that scatter so much allow."""
    assert sum(different(made_study, 2.0)) > 200
