"""How often an operation that gives other bits each time is taken for silent corruption, of real processes here.

Kernels of NumPy sum in another order in each call, in some calls or in some processes, everywhere or in one element.
A study of host against itself runs them in fresh processes. Its first pair, whose processes find out whether calls
repeat themselves, with one other pair each are the runs that are counted: a false alarm is one of which `compare` would
tell. What differs in few places of few processes alone is told on purpose: nothing tells a rare race from a bit that
flipped. Takes two minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from primbench.compare.outputs import deviations, seen_in
from primbench.results import file as results_file
from primbench.results.file import Results

KERNELS = """
from dataclasses import dataclass
from typing import Any

import numpy as np

from primbench.problem import Problem, Reference, kernel, size
from primbench.random import random_array

ROWS = 64


class Summed(Problem):
    n: int = size("elements")

    def bytes_moved(self) -> int:
        return 4 * ROWS * self.n

    def inputs(self, rng: Any) -> tuple[Any, ...]:
        return (random_array(rng, (ROWS, self.n), "float32"),)

    def reference(self, rng: Any, *inputs: Any) -> Reference:
        (x,) = (each.astype("float64") for each in inputs)
        return Reference(..., x.sum(0), abs(x).sum(0))

    def tolerance(self) -> float:
        return 1e-4


def summed(x: Any, order: Any, few: bool) -> Any:
    y = x[order].sum(0)
    if few:
        y[8:] = x[:, 8:].sum(0)
    return y


def made(name: str, in_process: float, in_call: float, few: bool) -> None:
    @dataclass(frozen=True)
    class Kind(Summed, name=name):
        n: int = size("elements")

    @kernel(name, "numpy")
    def setup(backend: Any, problem: Any, x: Any) -> Any:
        rng = np.random.default_rng()
        usual, other = np.arange(ROWS), np.arange(ROWS)[::-1].copy()
        by_process = other if rng.random() < in_process else usual

        def step() -> Any:
            anew = rng.permutation(ROWS) if in_call == 1 else other if rng.random() < in_call else by_process
            return summed(x, anew, few)

        return step


"""
KINDS = {  # name -> share of processes in which the order is another one, share of calls, whether in few elements alone
    "each-call": (0.0, 1.0, False),
    "half-of-calls": (0.0, 0.5, False),
    "few-calls": (0.0, 0.01, False),
    "half-of-processes": (0.5, 0.0, False),
    "few-processes": (0.1, 0.0, False),
    "few-elements-each-call": (0.0, 1.0, True),
    "few-elements-half-of-calls": (0.0, 0.5, True),
}


def measured(folder: Path, runs: int) -> Results:
    kernels, kept = folder / "kernels.py", folder / "kept.jsonl"
    kernels.write_text(KERNELS + "".join(f"made({name!r}, *{of!r})\n" for name, of in KINDS.items()))
    cases = [word for name in KINDS for word in ("--primitive", f"{name} -n 1000")]
    words = ["--kernels", str(kernels), *cases, "--arm", "host", "--arm", "host:env.OTHER=1,name=other"]
    how = ["--backend", "numpy", "--min-time", "1ms", "--max-time", "2ms", "--fail-on", "never", "-q"]
    command = [sys.executable, "-P", "-m", "primbench", "study", *words, *how, "--pairs", str(1 + runs)]
    subprocess.run([*command, "-o", str(kept)], check=True, stdout=subprocess.DEVNULL)
    return results_file.read(kept)


def alarms(found: Results, kind: str, processes: Sequence[int]) -> int:
    """Of a run of these pairs."""
    records = [each for each in found.records if each.case.primitive == kind and each.case.process in processes]
    workers = {each.worker: each for each in found.workers}
    seen = [
        each
        for arm in ("host", "other")
        for each in seen_in(arm, [record for record in records if record.case.arm == arm], workers)
    ]
    if len(seen) != 2 * len(processes):
        raise RuntimeError(f"{kind}: {len(seen)} outputs were kept of {2 * len(processes)} processes")
    return len(deviations(seen))


def rows(found: Results, runs: int) -> Iterator[tuple[str, int, int]]:
    """Kind, runs with an alarm, and alarms of all processes together."""
    for kind in KINDS:
        with_first = [(0, 1 + number) for number in range(runs)]
        yield kind, sum(alarms(found, kind, each) > 0 for each in with_first), alarms(found, kind, range(1 + runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), runs)
    print("| kernel | runs with a false alarm | alarms of all processes together |")
    print("| --- | --- | --- |")
    for kind, few, together in rows(found, runs):
        print(f"| {kind} | {few} of {runs} | {together} |")


if __name__ == "__main__":
    main()
