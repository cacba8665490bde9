"""How many of many random cases a study settles for a place against itself, and how often it is wrong.

Draws problems of every primitive that one process times, sizes evenly on a logarithmic scale, and has a study compare
the host with itself; options of `primbench study` may follow, such as --until settled --time-budget 10min and
--device cuda:0 --backend cupy. On a GPU 84 cases take some 1.3 minutes a pair, until they are settled.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from primbench.compare.pairs import compare
from primbench.results import file as results_file

Draw = Callable[[random.Random, bool], dict[str, object]]


def size(rng: random.Random, least: int, most: int, multiple: int = 1) -> int:
    """Evenly distributed on a logarithmic scale."""
    drawn = math.exp(rng.uniform(math.log(least), math.log(most)))
    return max(multiple, round(drawn / multiple) * multiple)


def gemm(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    most = 4096 if on_gpu else 1024
    sizes = {name: size(rng, 16, most, 8) for name in "mnk"}
    return {**sizes, "dtype": rng.choice(["float32", "float16", "bfloat16"] if on_gpu else ["float32"])}


def conv(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    taps, side = rng.choice([1, 3, 5]), size(rng, 7, 56)
    return {
        "n": size(rng, 1, 32 if on_gpu else 2), "c": size(rng, 8, 256, 8), "k": size(rng, 8, 256, 8),
        "h": side, "w": side, "r": taps, "s": taps, "pad_h": taps // 2, "pad_w": taps // 2,
        "direction": rng.choice(["forward", "bwd_data", "bwd_weights"]),
        "dtype": rng.choice(["float32", "float16"] if on_gpu else ["float32"]),
    }  # fmt: skip


def rnn(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    return {
        "hidden_size": size(rng, 64, 1024 if on_gpu else 256, 8), "batch_size": size(rng, 1, 64),
        "seq_len": size(rng, 2, 64 if on_gpu else 16), "cell": rng.choice(["vanilla", "lstm", "gru"]),
        "dtype": rng.choice(["float32", "float16"] if on_gpu else ["float32"]),
    }  # fmt: skip


def sparse_gemm(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    return {**{name: size(rng, 64, 2048, 8) for name in "mnk"}, "sparsity": round(rng.uniform(0.8, 0.99), 2)}


def memcpy(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    direction = rng.choice(["h2d", "d2h", "d2d"]) if on_gpu else "h2h"
    return {"bytes": size(rng, 64, 2**27), "direction": direction}


def launch(rng: random.Random, on_gpu: bool) -> dict[str, object]:
    if on_gpu:
        parameter_bytes = 8 * size(rng, 2, 512)
        return {"call": rng.choice(["driver", "ctypes"]), "parameter_bytes": rng.choice([0, parameter_bytes])}
    return {"call": rng.choice(["dispatch", "ctypes", "getppid", "thread_wake"])}


DRAWS: dict[str, Draw] = {each.__name__: each for each in (gemm, conv, rnn, sparse_gemm, memcpy, launch)}


def suite(count: int, seed: int, *, on_gpu: bool) -> str:
    """A suite file of ``count`` different problems, as many of each primitive."""
    rng, found = random.Random(seed), {name: list[str]() for name in DRAWS}
    for primitive in itertools.islice(itertools.cycle(DRAWS), 10 * count):
        fields = DRAWS[primitive](rng, on_gpu)
        line = f"  {{ {', '.join(f'{name} = {_toml(value)}' for name, value in fields.items())} }},"
        if line not in found[primitive] and sum(map(len, found.values())) < count:
            found[primitive].append(line)
    tables = ["\n".join([f"{name} = [", *lines, "]"]) for name, lines in found.items() if lines]
    return "\n".join(['title = "Random cases"', *tables, ""])


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=84)
    parser.add_argument("--draw", type=int, default=1, help="seed of the sizes")
    parser.add_argument("-o", "--output", type=Path, help="keep the results file here")
    asked, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        cases, path = Path(folder, "random.toml"), asked.output or Path(folder, "random.jsonl")
        cases.write_text(suite(asked.cases, asked.draw, on_gpu="cpu" not in options and "cuda:0" in options))
        words = [
            sys.executable,
            "-P",
            "-m",
            "primbench",
            "study",
            cases,
            "--arm",
            "host",
            "--self",
            "--fail-on",
            "never",
        ]
        subprocess.run([*map(str, words), *options, "-o", str(path)], check=True)
        (again,) = compare(results_file.read(path)).all_arms
        told = Counter(case.verdict or "not compared" for case in again.cases)
    print(f"{sum(told.values())} cases: {', '.join(f'{count} {verdict}' for verdict, count in told.most_common())}")


if __name__ == "__main__":
    main()
