"""A study of kernels one of which flips a bit in one process, and another one of which never sums in the same order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KERNELS = """
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from primbench.problem import Problem, Reference, kernel, size
from primbench.random import random_array


class Summed(Problem):
    n: int = size("elements")

    def bytes_moved(self) -> int:
        return 4 * 64 * self.n

    def inputs(self, rng: Any) -> tuple[Any, ...]:
        return (random_array(rng, (64, self.n), "float32"),)

    def reference(self, rng: Any, *inputs: Any) -> Reference:
        (x,) = (each.astype("float64") for each in inputs)
        return Reference(..., x.sum(0), abs(x).sum(0))

    def tolerance(self) -> float:
        return 1e-4


@dataclass(frozen=True)
class Flipped(Summed, name="flipped"):
    n: int = size("elements")


@dataclass(frozen=True)
class Shuffled(Summed, name="shuffled"):
    n: int = size("elements")


@kernel("flipped", "numpy")
def flipped(backend: Any, problem: Any, x: Any) -> Any:
    once = os.environ.get("FLIPS_ONCE")
    flips = bool(once) and not os.path.exists(once + ".second") and os.path.exists(once)
    if once:
        open(once + ".second" if os.path.exists(once) else once, "w").close()

    def step() -> Any:
        y = x.sum(0)
        y.view(np.uint32)[7] ^= flips
        return y

    return step


@kernel("shuffled", "numpy")
def shuffled(backend: Any, problem: Any, x: Any) -> Any:
    rng = np.random.default_rng()
    return lambda: x[rng.permutation(64)].sum(0)
"""


def primbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, so that the kernels of the test are no other test's."""
    command = [sys.executable, "-P", "-m", "primbench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_a_bit_that_flipped_in_one_process_is_found_and_named(tmp_path: Path) -> None:
    """In the second process of the arm, the first having agreed with the reference."""
    kernels, kept = tmp_path / "kernels.py", tmp_path / "kept.jsonl"
    kernels.write_text(KERNELS)
    said = primbench(
        "study", "--kernels", str(kernels), "--primitive", "flipped -n 1000", "--primitive", "shuffled -n 1000",
        "--arm", "host", "--arm", f"host:env.FLIPS_ONCE={tmp_path / 'once'},name=other", "--backend", "numpy",
        "--min-time", "1ms", "--max-time", "2ms", "--pairs", "3", "-o", str(kept), "--fail-on", "slower",
    )  # fmt: skip
    assert 1 == said.returncode, said.stderr
    assert "Wrong in a few bits in other: flipped" in said.stdout.replace("; wrong", "; Wrong").replace("\n", " ")
    warned = [line for line in said.stdout.splitlines() if line.startswith("WRONG IN A FEW BITS")]
    assert 1 == len(warned), said.stdout
    told = json.loads(primbench("compare", str(kept), "--json", "-").stdout)
    found = {
        case["case"]["primitive"]: case["deviations"] for arm in told["arms"] for case in arm["cases"]
    }  # fmt: skip
    assert [] == found["shuffled"]
    (deviation,) = found["flipped"]
    assert ("other", 1, 1, 5) == tuple(deviation[name] for name in ("place", "process", "parts", "others"))
    assert deviation["calls"] == deviation["of_calls"] > 1
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    records = [line for line in lines if line["kind"] == "record"]
    assert all(each["status"] == "ok" and each["measurement"]["verified"] for each in records)
    assert 3 <= max(len(each["measurement"]["output"]["calls"]) for each in records)  # of the shuffled one
