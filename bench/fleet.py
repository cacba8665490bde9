"""How often a fleet of healthy nodes gives a false alarm, how often a slow node is found, and what reading 1000 takes.

Made of one results file that is measured here, or of --file: each node has its own name and times that scatter, its
samples and all else are the file's. About ten minutes.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from primbench.fleet.outliers import Spread, limits
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Line, Record
from primbench.spec.fleet import Member

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

CASES = 20
NODES = (5, 8, 16, 64, 1000)
SLOWER = (1.05, 1.1)
OF_T5 = (3 / 5) ** 0.5  # makes its standard deviation 1


def lognormal(dice: np.random.Generator, nodes: int) -> Logs:
    return dice.standard_normal((CASES, nodes))


def of_sessions(dice: np.random.Generator, nodes: int) -> Logs:
    """Each case of each node by itself."""
    return OF_T5 * dice.standard_t(5, (CASES, nodes))


def of_whole_nodes(dice: np.random.Generator, nodes: int) -> Logs:
    """Most of it a node has in all of its cases."""
    return OF_T5 * (0.8 * dice.standard_t(5, (1, nodes)) + 0.6 * dice.standard_t(5, (CASES, nodes)))


KINDS: dict[str, Callable[[np.random.Generator, int], Logs]] = {
    "lognormal": lognormal,
    "t of 5, sessions": of_sessions,
    "t of 5, nodes": of_whole_nodes,
}


def named_slow(logs: Logs) -> set[str]:
    """Nodes that stand out in anything."""
    tests = {
        case: Spread({str(node): time_s for node, time_s in enumerate(np.exp(each).tolist())}, 0.0, case % 3)
        for case, each in enumerate(logs)
    }
    return {
        node
        for case, limit in limits(tests).items()
        for node, time_s in tests[case].times_s.items()
        if limit.is_exceeded(node, time_s)
    }


def row(kind: str, nodes: int, *, unlike: bool, fleets: int) -> str:
    """Share of healthy fleets with any alarm; of those with a slow node in which that one is named.

    unlike: whether some cases scatter ten times as much as others.
    """
    dice = np.random.default_rng(nodes)
    alarms, few = 0, 0 if unlike else min(fleets, 100)
    found = dict.fromkeys(itertools.product((CASES, 1), SLOWER), 0)
    for number in range(fleets):
        deviations = 0.01 * (10 ** dice.uniform(-0.5, 0.5, CASES) if unlike else np.ones(CASES))
        logs = KINDS[kind](dice, nodes) * deviations[:, None]
        alarms += bool(named_slow(logs))
        if number < few:
            for cases, times in found:
                found[cases, times] += is_found(logs, cases, times)
    power = [f"{count / few:4.0%}" if few else "   -" for count in found.values()]
    return f"{nodes:5}  {kind:>16}  {'tenfold' if unlike else 'alike':>7}  {alarms / fleets:6.1%}  {'  '.join(power)}"


def is_found(logs: Logs, cases: int, times: float) -> bool:
    """Whether the first node is, where the first cases take it so many times as long."""
    slow = logs.copy()
    slow[:cases, 0] += math.log(times)
    return "0" in named_slow(slow)


def as_node(results: Results, number: int, of: int, times: float) -> Results:
    """The same results of another node, all samples so many times as long."""
    member = Member(node=f"node{number:04}", rank=number, of=of, launcher="srun", job="1")
    return Results(
        header=replace(results.header, member=member),
        workers=results.workers,
        records=[_longer(record, times) for record in results.records],
    )


def _longer(record: Record, times: float) -> Record:
    measured = msgspec.to_builtins(record)
    for name, value in (measured["measurement"] or {}).items():
        if isinstance(value, dict) and "samples_s" in value:
            measured["measurement"][name] = value | {"samples_s": [each * times for each in value["samples_s"]]}
    return msgspec.convert(measured, type(record))


def write_fleet(folder: Path, one: Results, nodes: int, slow: int) -> int:
    """Files of a fleet of which the last ones are 10 % slower; returns their bytes."""
    dice = random.Random(0)
    for number in range(nodes):
        node = as_node(one, number, nodes, dice.lognormvariate(0, 0.005) * (1.1 if number >= nodes - slow else 1))
        lines: list[Line] = [node.header, *node.workers, *node.records]
        (folder / f"node-{number}.jsonl").write_bytes(b"".join(results_file.encode(line) for line in lines))
    return sum(path.stat().st_size for path in folder.iterdir())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--file", type=Path, help="results of one node; else a short `run quick` here")
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--no-alarms", action="store_true", help="only the reading of a large fleet")
    asked = options.parse_args()
    if not asked.no_alarms:
        print("nodes           scatter    cases  false   5% slower in all, 10%; 5% slower in one, 10%")
        for nodes in NODES:
            for kind, unlike in itertools.product(KINDS, (False, True)):
                print(row(kind, nodes, unlike=unlike, fleets=600 if nodes < 100 else 100), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        one = asked.file or measured(Path(scratch))
        folder = Path(scratch, "fleet")
        folder.mkdir()
        size = write_fleet(folder, results_file.read(one), asked.nodes, slow=asked.nodes // 100)
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "primbench", "fleet", folder], capture_output=True, text=True, check=False
        )
        took_s = time.perf_counter() - begun
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(done.stdout.splitlines()[0] if done.stdout else done.stderr)
    print(
        f"{asked.nodes} nodes, {size / 1e6:.0f} MB: {took_s:.1f} s, at most {peak_mib:.0f} MiB, exit {done.returncode}"
    )


def measured(folder: Path) -> Path:
    path = folder / "one.jsonl"
    quick = ["run", "quick", "--backend", "numpy", "--device", "cpu", "--min-time", "20ms", "--max-time", "100ms"]
    subprocess.run(
        [sys.executable, "-P", "-m", "primbench", *quick, "-q", "-o", path], check=False, capture_output=True
    )
    return path


if __name__ == "__main__":
    main()
