"""Does a step take in a place what `primbench bound` foretells? Three steps, each in three places.

A row a step and place, once it is measured: the interval that was foretold and what was measured, as ratios to the time
here. The steps are captured of scripts: many small calls, copies that memory bounds, products on two threads.
The places: half the CPU time of its threads, one CPU, and beside a neighbour that multiplies. Doses are given once for
all places of a step. Takes two to three minutes a step, on two quiet CPUs with torch; steps and places may be named.
A place that cannot be had here, such as a quota without control groups that may be written, says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import primbench.suites as suites
from primbench.cli.study import neighbour_in_words
from primbench.doses.bounding import BoundQuestion, bound, here_of, step_of
from primbench.doses.report import answer
from primbench.errors import InvalidRequest
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.placement import Placement
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.doses.found import Bounds, Foretold

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
PLACES: dict[str, Callable[[int], Arm]] = {
    "quota": lambda threads: Arm(name="quota", cpus=threads / 2),
    "cpu": lambda threads: Arm(name="cpu", affinity=(0,)),
    "neighbour": lambda threads: Arm(
        name="neighbour",
        placement=Placement(threads=threads),
        neighbour=neighbour_in_words("gemm -m 256 -n 256 -k 256 --backend numpy"),
    ),
}
ROW = "{:10} {:10} {:>16} {:>9}  {}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", choices=STEPS, action="append")
    parser.add_argument("--place", choices=PLACES, action="append")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds in which doses are given to a step")
    asked = parser.parse_args()
    print(ROW.format("step", "place", "foretold", "measured", "as foretold"))
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.step or STEPS:
            script, threads = STEPS[name]
            places = [PLACES[each](threads) for each in asked.place or PLACES]
            try:
                bounds = bounded(captured(Path(folder), name, script), threads, places, asked.budget)
            except InvalidRequest as reason:
                print(f"{name}: {reason}", flush=True)
                continue
            for told in bounds.places:
                row(name, told)
            print(f"{format_time(bounds.took_s)}: {answer(bounds)}", flush=True)
            if bounds.is_cut_off:
                sys.exit(130)


def captured(folder: Path, name: str, script: str) -> Path:
    """The step of a script, in a file."""
    (folder / f"{name}.py").write_text(script)
    file = folder / f"{name}.toml"
    words = ["capture", str(folder / f"{name}.py"), "-o", str(file), "--step", "8", "--overwrite"]
    subprocess.run([sys.executable, "-m", "primbench", *words], stdout=subprocess.DEVNULL, check=True)
    return file


def bounded(file: Path, threads: int, places: list[Arm], budget_s: float) -> Bounds:
    """What doses foretell of all places, and what is measured there."""
    step = step_of(str(file), suites.read(file), suites.study(file), "cpu")
    asking = BoundQuestion(
        step=step, here=here_of(step, threads), places=places, budget_s=budget_s, timeout_s=300.0
    )  # fmt: skip
    found = Results(header=header(sys.argv, {}), workers=[], records=[])
    bounds, _ = bound(asking, found, None, lambda sentence: print(sentence, file=sys.stderr, flush=True))
    return bounds


def row(name: str, told: Foretold) -> None:
    interval = "-" if told.low is None else f"{told.low:.2f} to {told.high:.2f}"
    measured = "-" if told.measured is None else f"{told.measured:.2f}"
    verdict = told.reason or ("yes" if told.is_within else "no")
    print(ROW.format(name, told.place, interval, measured, verdict), flush=True)


if __name__ == "__main__":
    main()
