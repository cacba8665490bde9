"""How much longer calls take while a process beside them samples what they use, and what that process takes.

Promised by docs/read.md: no median moves by much. A case with and without --over-time, one now, the other next, in
mirrored order, in one process; ratios within pairs, with 95 % intervals. Takes 3 minutes.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

from primbench.problem import Value
from primbench.registry import build
from primbench.spec.method import Method
from primbench.stats import paired_ratio, quantile
from primbench.timing.case import measure

CASES: dict[str, dict[str, Value]] = {
    "launch": {"call": "getppid"},
    "gemm": {"m": 64, "n": 64, "k": 64},
    "memcpy": {"bytes": 2**26, "direction": "h2h", "memory": "pageable"},
}


class Taken(NamedTuple):
    """Seconds: the main metric's median, the tail of single calls, the whole case, and CPU time of a sample."""

    median_s: float
    tail_s: float
    case_s: float
    cost_s: float


def taken(primitive: str, backend: str, device: str, *, over_time: bool) -> Taken:
    method = Method(min_time_s=0.3, max_time_s=0.3, over_time=over_time)
    start = time.perf_counter()
    found = measure(build(primitive, CASES[primitive]), backend, device, method=method)
    case_s = time.perf_counter() - start
    assert found.main is not None
    assert found.wall_s is not None
    cost_s = found.over_time.cost_s if found.over_time else 0.0
    return Taken(found.main.median_s, found.wall_s.quantile_s(0.99), case_s, cost_s)


def shown(a: list[float], b: list[float]) -> str:
    ratio, low, high = paired_ratio(a, b)
    return f"{ratio:.3f} [{low or 0:.3f}, {high or 0:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    for primitive in CASES:
        found: dict[bool, list[Taken]] = {True: [], False: []}
        for number in range(asked.pairs):
            for over_time in (True, False) if number % 2 else (False, True):
                found[over_time].append(taken(primitive, asked.backend, asked.device, over_time=over_time))
        medians, tails, cases = (
            [[each[place] for each in found[side]] for side in (True, False)] for place in range(3)
        )
        longer_s = quantile([a - b for a, b in zip(*cases, strict=True)], 0.5)
        cost_s = quantile([each.cost_s for each in found[True]], 0.5)
        print(
            f"{primitive}: median {shown(*medians)}, wall p99 {shown(*tails)}; a sample takes {1e3 * cost_s:.2f} ms "
            f"of CPU time, the case {longer_s:.2f} s longer; {asked.pairs} pairs",
            flush=True,
        )


if __name__ == "__main__":
    main()
