"""Do the parts of a step add up? Twelve steps, each captured, measured part by part and as a whole, and explained.

A row a step: the sum of its parts' device times over its own, that of their enqueue times over its own, the larger of
the two over its period in a loop, and what is unexplained of that. Takes one GPU and less
than five minutes, in which the last ones may be left out; steps may be named.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from primbench.decompose.model import captured
from primbench.suites import read

STEPS: dict[str, dict[str, Any]] = {
    "mnist_cnn": {},
    "fathom_memnet": {},
    "fathom_autoenc": {},
    "llama_block": {"dtype": "bfloat16"},
    "lstm_lm": {},
    "alexnet": {"batch_size": 128, "dtype": "bfloat16"},
    "resnet50": {"batch_size": 64, "dtype": "bfloat16"},
    "gpt2": {"dtype": "bfloat16"},
    "encoder": {"dtype": "bfloat16"},
    "fathom_vgg": {},
    "fathom_seq2seq": {},
    "tf_cnn_inception3": {"dtype": "bfloat16"},
}
SHORT = ("--min-time", "3ms", "--max-time", "15ms", "--no-check", "-q")
HEADINGS = ("calls", "parts", "device", "of busy", "host", "of host", "step", "of step", "unexplained")
ENDING_S = 30.0  # in which what was measured by then is written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*STEPS])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--keep", type=Path, help="a new folder for the suites and what was found")
    parser.add_argument("--budget", type=float, default=270.0, help="seconds for all of it; later steps are left out")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(exist_ok=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as capturing:  # it then frees the GPU
            all_suites = capturing.map(_captured, options.names, repeat(options.device), repeat(kept))
            suites = [suite for suite in all_suites if suite is not None]
        print(f"{len(suites)} steps captured in {time.monotonic() - begun:.0f} s", flush=True)
        records = kept / "steps.jsonl"
        command = ["explain", *map(str, suites), "--device", options.device, *SHORT, "-o", str(records)]
        _run(command, options.budget - (time.monotonic() - begun))
        print(f"measured after {time.monotonic() - begun:.0f} s", flush=True)
        found = kept / "steps.json"
        (kept / "steps.txt").write_text(_run(["explain", str(records), "--json", str(found)], ENDING_S))
        _print(json.loads(found.read_text()), records, suites)


def _captured(name: str, device: str, folder: Path) -> Path | None:
    """The suite; all in one process, since to start torch takes longer."""
    suite = folder / f"{name}.toml"
    try:
        step = captured({"network": name, **STEPS.get(name, {})}, device)
        step.write(suite)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())}"[:300], flush=True)
        return None
    finally:
        _free(device)
    return suite


def _run(arguments: list[str], timeout_s: float) -> str:
    """What it prints, or has printed once it was ended after so long."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "primbench", *arguments], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            return child.communicate(timeout=max(1.0, timeout_s))[0]
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGTERM)
            return child.communicate(timeout=ENDING_S)[0]


def _print(steps: list[dict[str, Any]], records: Path, suites: list[Path]) -> None:
    """A row for each step of which all was measured."""
    counts = Counter(
        line["case"]["labels"]["step"]
        for line in map(json.loads, records.read_text().splitlines())
        if line["kind"] == "record"
    )
    expected = {suite: len(read(suite)) for suite in suites}
    print(f"{'':20}" + "".join(f"{each:>12}" for each in HEADINGS))
    for suite in suites:
        step = next((each for each in steps if str(suite) in each["step"] or len(suites) == 1), None)
        if step is None or counts[step["step"]] < expected[suite]:
            print(f"{suite.stem:20}not measured within the budget")
        else:
            print(f"{suite.stem:20}" + "".join(f"{each:>12}" for each in _cells(step, expected[suite])))


def _cells(step: dict[str, Any], parts: int) -> list[str]:
    numbers = {each["name"]: each for each in step["numbers"]}
    cells = [str(step["calls"]), str(parts - 1)]
    for each in ("device", "host", "step"):
        cells += _pair(numbers.get(each))
    unexplained_s = next((row["seconds"] for row in step["rows"] if row["name"] == "unexplained"), None)
    step_s = numbers["step"]["step_s"]
    return [*cells, "-" if unexplained_s is None else f"{unexplained_s / step_s:.1%}"]


def _pair(number: dict[str, Any] | None) -> list[str]:
    """The step's own time, and the parts' over it."""
    if number is None or not number["step_s"]:
        return ["-", "-"]
    return [f"{number['step_s'] * 1e3:.3f} ms", f"{number['parts_s'] / number['step_s']:.3f}"]


def _free(device: str) -> None:
    import gc

    import torch

    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
