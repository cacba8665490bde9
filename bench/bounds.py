"""Does a step take in a place what `primbench bound` foretells? Three steps, each in three places.

A row a step and place, once it is measured: the interval that was foretold and what was measured, as ratios to the time
here. The steps are captured of scripts: many small calls, copies that memory bounds, products on two threads.
The places: half the CPU time of its threads, one CPU, and beside a neighbour that multiplies. Takes two to three
minutes for each, on two quiet CPUs with torch; steps and places may be named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CALLS = """
import torch
torch.set_num_threads(1)
layers = [torch.nn.Linear(16, 16) for _ in range(16)]
model = torch.nn.Sequential(*[each for layer in layers for each in (layer, torch.nn.Tanh())])
optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
x = torch.randn(4, 16)
for _ in range(30):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
MEMORY = """
import torch
torch.set_num_threads(1)
weights = [torch.nn.Parameter(torch.randn(2**22)) for _ in range(4)]
optimizer = torch.optim.SGD(weights, 0.01, momentum=0.9, foreach=False)
for _ in range(12):
    optimizer.zero_grad()
    sum((each * 0.5).sum() for each in weights).backward()
    optimizer.step()
"""
PRODUCTS = """
import torch
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x = torch.randn(512, 1024)
for _ in range(15):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
STEPS = {"calls": (CALLS, 1), "memory": (MEMORY, 1), "products": (PRODUCTS, 2)}
"""Scripts, and their threads."""
PLACES = {
    "quota": lambda threads: ["--in", f"host:cpus={threads / 2:g}"],
    "cpu": lambda threads: ["--in", "host:affinity=0"],
    "neighbour": lambda threads: ["--beside", "gemm -m 256 -n 256 -k 256 --backend numpy"],
}
ROW = "{:10} {:10} {:>16} {:>9}  {}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", choices=STEPS, action="append")
    parser.add_argument("--place", choices=PLACES, action="append")
    parser.add_argument("--budget", type=float, default=70.0, help="seconds in which doses are given")
    asked = parser.parse_args()
    print(ROW.format("step", "place", "foretold", "measured", "as foretold"))
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.step or STEPS:
            script, threads = STEPS[name]
            file = captured(Path(folder), name, script)
            for place in asked.place or PLACES:
                row(name, place, bounds(file, [*PLACES[place](threads), "--time-budget", f"{asked.budget}s"]))


def captured(folder: Path, name: str, script: str) -> Path:
    """The step of a script, in a file."""
    (folder / f"{name}.py").write_text(script)
    file = folder / f"{name}.toml"
    primbench("capture", folder / f"{name}.py", "-o", file, "--step", "8", "--overwrite")
    return file


def bounds(file: Path, options: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(primbench("bound", file, "--device", "cpu", *options, "--json", "-"))
    return found


def primbench(*words: object) -> str:
    """What it prints; raises CalledProcessError where it fails by more than a place that was not foretold."""
    done = subprocess.run([sys.executable, "-m", "primbench", *map(str, words)], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        done.check_returncode()
    return done.stdout.decode()


def row(name: str, place: str, found: dict[str, Any]) -> None:
    (told,) = found["places"]
    interval = "-" if told["low"] is None else f"{told['low']:.2f} to {told['high']:.2f}"
    measured = "-" if told["measured"] is None else f"{told['measured']:.2f}"
    verdict = told["reason"] or ("yes" if told["is_within"] else "no")
    print(ROW.format(name, place, interval, measured, verdict), found["headline"], flush=True)


if __name__ == "__main__":
    main()
