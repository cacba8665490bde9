"""How much of the scatter of a pair's ratio is between processes, between set-ups within one, and of sampling itself.

The host against itself, by processes that take turns: each sets a case up several times, with fresh memory, handles and
graphs, and samples it each time; halves of the samples tell what sampling itself leaves. Variances of the logarithm of
the ratio are those of a nested design with random effects; intervals of their ratios are exact for normal ones (Searle,
Casella & McCulloch, Variance Components, 1992, section 3.6). --device cuda:0 --backend torch takes a GPU. Six cases of
eight pairs with four set-ups each take a minute on a quiet CPU. What a machine does from one set-up to the next counts
as theirs: on a busy one their part is an upper bound.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import f as f_distribution

from primbench.experiments import pairs
from primbench.experiments.study import plan
from primbench.registry import build
from primbench.results.metrics import METRICS, SAMPLED
from primbench.results.record import Record
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.naming import name_of
from primbench.spec.study import Study
from primbench.stats import quantile
from primbench.workers.session import Session

METHOD = Method(min_time_s=0.01, max_time_s=0.04)
ON_CPU: list[tuple[str, dict[str, Any]]] = [
    ("launch", {"call": "dispatch"}),
    ("gemm", {"m": 64, "n": 64, "k": 64}),
    ("gemm", {"m": 384, "n": 384, "k": 384}),
    ("conv", {"n": 1, "c": 32, "h": 14, "w": 14, "k": 32, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}),
    ("memcpy", {"bytes": 4096, "direction": "h2h"}),
    ("memcpy", {"bytes": 2**24, "direction": "h2h"}),
]
ON_GPU: list[tuple[str, dict[str, Any]]] = [
    ("launch", {"call": "driver"}),
    ("gemm", {"m": 256, "n": 256, "k": 256, "dtype": "bfloat16"}),
    ("gemm", {"m": 1760, "n": 16, "k": 1760, "dtype": "bfloat16"}),
    ("conv", {"n": 8, "c": 64, "h": 28, "w": 28, "k": 64, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "dtype": "float16"}),
    ("memcpy", {"bytes": 4096, "direction": "h2d"}),
    ("memcpy", {"bytes": 2**24, "direction": "d2d"}),
]
LEVEL = 0.95


class Parts(NamedTuple):
    """Standard deviations of the logarithm of a pair's ratio: from process to process, from set-up to set-up, and of
    the samples of a set-up. processes_over_rest: the variance of the first over that of the two others, its interval;
    set_ups_over_samples: that of the second over the third.
    """

    process: float
    set_up: float
    sampling: float
    processes_over_rest: tuple[float, float]
    set_ups_over_samples: tuple[float, float]


def parts(ratios: np.ndarray[Any, Any]) -> Parts:
    """ratios: logarithms, of pair, set-up and half of the samples."""
    count, set_ups, halves = ratios.shape
    of_set_up = ratios.mean(axis=2)
    of_pair = of_set_up.mean(axis=1)
    between = halves * set_ups * of_pair.var(ddof=1)
    within = halves * ((of_set_up - of_pair[:, None]) ** 2).sum() / (count * (set_ups - 1))
    left = ((ratios - of_set_up[:, :, None]) ** 2).sum() / (count * set_ups * (halves - 1))
    degrees = (count - 1, count * (set_ups - 1), count * set_ups * (halves - 1))
    return Parts(
        process=math.sqrt(max(0.0, between - within) / (halves * set_ups)),
        set_up=math.sqrt(max(0.0, within - left) / halves),
        sampling=math.sqrt(left / halves),
        processes_over_rest=_interval(between / within, degrees[0], degrees[1], set_ups),
        set_ups_over_samples=_interval(within / left, degrees[1], degrees[2], 1),
    )


def _interval(found: float, upper: int, lower: int, times: int) -> tuple[float, float]:
    """Of the ratio of two variances, the first of which is in the upper mean square so many times, the second once."""
    low, high = (float(f_distribution.ppf(level, upper, lower)) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return max(0.0, (found / high - 1) / times), max(0.0, (found / low - 1) / times)


def ran(backend: str, device: str, count: int, set_ups: int) -> list[Record]:
    arms = [parse_arm("host"), parse_arm("host:name=again")]
    cases = [
        Case(primitive=name, parameters=build(name, fields).parameters(), backend=backend, device=device, method=METHOD)
        for name, fields in (ON_CPU if device == "cpu" else ON_GPU)
    ]
    study = Study(arms=arms, cases=cases, pairs=count)
    blocks = plan(arms, cases * set_ups, range(count), study.seed)
    with Session(arms={arm.name: arm for arm in arms}) as session:
        lines = pairs.run(session, study, blocks, tell=print)
        return [line for line in lines if isinstance(line, Record)]


def by_case(records: Sequence[Record]) -> Iterator[tuple[str, str, Parts]]:
    """The case, a metric and its parts, of all metrics that every process has of every set-up."""
    found: dict[str, dict[int, dict[str, list[Record]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        case = record.case
        found[name_of(case)][case.process][case.arm].append(record)
    for name, of_pair in found.items():
        for metric in (each.name for each in SAMPLED if each.is_compared):
            ratios = [[_halves(each, metric) for each in zip(*arms.values(), strict=True)] for arms in of_pair.values()]
            if all(each is not None for ratio in ratios for each in ratio):
                yield name, metric, parts(np.array(ratios))


def _halves(both: Sequence[Record], metric: str) -> list[float] | None:
    """The logarithm of the ratio of medians, of either half of the samples."""
    samples = [METRICS[metric].samples(each.measurement) for each in both]
    sampled = [each.samples_s for each in samples if each is not None and len(each.samples_s) >= 4]
    if len(sampled) < 2:
        return None
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in sampled]
    return [math.log(quantile(a, 0.5) / quantile(b, 0.5)) for a, b in zip(*halves, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--set-ups", type=int, default=4)
    asked = parser.parse_args()
    records = ran(asked.backend, asked.device, asked.pairs, asked.set_ups)
    print(f"{'':58} {'process':>8} {'set-up':>8} {'samples':>8}  {'process / rest':>16}  set-up / samples")
    for name, metric, found in by_case(records):
        deviations = " ".join(f"{each:8.2%}" for each in (found.process, found.set_up, found.sampling))
        ends = "  ".join(
            f"[{low:6.2f}, {high:6.2f}]" for low, high in (found.processes_over_rest, found.set_ups_over_samples)
        )
        print(f"{name[:46]:46} {metric:11} {deviations}  {ends}")


if __name__ == "__main__":
    main()
