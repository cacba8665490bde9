"""How often `primbench.versus` tells a function from itself, and how often it finds one that is 3 % slower.

Each function is set beside itself, and beside a copy that does 3 % more, so many times. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from primbench.experiments.functions import versus

MORE = 1.03


def loop(n: int) -> int:
    return sum(range(n))


def add(x: Any, y: Any) -> Any:
    return np.add(x, x, out=y)


def added(n: int) -> Callable[[], Any]:
    return partial(add, np.ones(n), np.empty(n))


FUNCTIONS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    f"a loop of {n}": (partial(loop, n), partial(loop, round(n * MORE))) for n in (1000, 100_000)
} | {f"NumPy's add of {n}": (added(n), added(round(n * MORE))) for n in (10_000, 100_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=25, help="of each function; there are four")
    times = parser.parse_args().times
    alike, slower, took_s = Counter[tuple[str, str]](), Counter[tuple[str, str]](), list[float]()
    for name, (function, more) in FUNCTIONS.items():
        for _ in range(times):
            started = time.monotonic()
            alike[name, verdict(function, function)] += 1
            took_s.append(time.monotonic() - started)
            slower[name, verdict(function, more)] += 1
        print(name, "itself:", _of(alike, name), "3 % more:", _of(slower, name), flush=True)
    print(f"median of a comparison: {sorted(took_s)[len(took_s) // 2]:.2f} s")


def _of(counts: Counter[tuple[str, str]], name: str) -> dict[str, int]:
    return {verdict: count for (of, verdict), count in counts.items() if of == name}


def verdict(one: Callable[[], Any], other: Callable[[], Any]) -> str:
    found = versus({"one": one, "other": other}, check=False)
    return found.arms[0].cases[0].verdict or "not told"


if __name__ == "__main__":
    main()
