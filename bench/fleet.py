"""How often a fleet of healthy nodes gives a false alarm, and what a fleet of a thousand takes to read.

Made of one results file that is measured here, or of --file: each node has its own name and times that scatter, its
samples and all else are the file's. About three minutes.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from primbench.fleet.outliers import Spread, limits
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Line, Record
from primbench.spec.fleet import Member

SCATTERS = {
    "normal": lambda dice, shape: dice.standard_normal(shape),
    "t of 5": lambda dice, shape: dice.standard_t(5, shape) * (3 / 5) ** 0.5,
}


def false_alarms(nodes: int, cases: int, kind: str, *, unlike: bool, margin: float, fleets: int = 1000) -> float:
    """Share of healthy fleets with any alarm. unlike: whether some cases scatter ten times as much as others."""
    dice = np.random.default_rng(nodes)
    alarms = 0
    for _ in range(fleets):
        deviations = 0.01 * (10 ** dice.uniform(-0.5, 0.5, cases) if unlike else np.ones(cases))
        logs = SCATTERS[kind](dice, (cases, nodes)) * deviations[:, None]
        tests = {case: Spread(np.exp(logs[case]).tolist(), margin, case % 3) for case in range(cases)}
        found = limits(tests)
        alarms += any(
            ratio is not None and max(tests[case].times_s) > ratio * median_s
            for case, (median_s, _, ratio) in found.items()
        )
    return alarms / fleets


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
        print("nodes  cases  scatter  cases unlike  margin  fleets with a false alarm")
        for nodes in (3, 4, 5, 6, 8, 16, 64, 256):
            for kind, unlike, margin in (("normal", False, 0.0), ("normal", True, 0.0), ("t of 5", True, 0.0),
                                         ("t of 5", True, 0.05)):  # fmt: skip
                share = false_alarms(nodes, 20, kind, unlike=unlike, margin=margin)
                print(f"{nodes:5}     20   {kind:>6}  {'tenfold' if unlike else 'alike':>12}  {margin:6}  {share:.1%}")
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
