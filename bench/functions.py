"""How often `primbench.versus` tells a function from itself, and how often it finds one that is 3 % slower.

Each function is set beside itself, and beside a copy that does 3 % more, so many times. On a GPU each round makes the
arguments anew. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.gpu_functions import OnGpu, by_name
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
    parser.add_argument("--device", default="cpu", help="cuda:0 takes functions of torch, Triton and CuPy")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of these functions")
    asked = parser.parse_args()
    alike, slower, took_s = Counter[tuple[str, str]](), Counter[tuple[str, str]](), list[float]()
    chosen = {name: each for name, each in functions(asked.device).items() if not asked.only or name in asked.only}
    for number in range(asked.times):
        for name, each in chosen.items():
            if each.more is None:
                continue
            started = time.monotonic()
            alike[name, verdict(each.function, each.function, each.setup, asked.device)] += 1
            took_s.append(time.monotonic() - started)
            slower[name, verdict(each.function, each.more, each.setup, asked.device)] += 1
            told = f"itself {_of(alike, name)}, 3 % more {_of(slower, name)}"
            print(f"{number + 1} of {asked.times}: {name}: {told}, {took_s[-1]:.2f} s", flush=True)
    print(f"median of a comparison: {sorted(took_s)[len(took_s) // 2]:.2f} s")


def functions(device: str) -> dict[str, OnGpu]:
    if device != "cpu":
        return by_name()
    return {name: OnGpu(function, tuple, more) for name, (function, more) in FUNCTIONS.items()}


def _of(counts: Counter[tuple[str, str]], name: str) -> dict[str, int]:
    return {verdict: count for (of, verdict), count in counts.items() if of == name}


def verdict(one: Callable[..., Any], other: Callable[..., Any], setup: Callable[[], Any], device: str) -> str:
    found = versus({"one": one, "other": other}, setup=setup, device=device, check=False)
    return found.arms[0].cases[0].verdict or "not told"


if __name__ == "__main__":
    main()
