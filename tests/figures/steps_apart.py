"""Do the parts of a step add up? Twelve steps, each captured, measured part by part and as a whole, and explained.

A row a step: the sum of its parts' device times over its own, that of their enqueue times over its own, the larger of
the two over its period in a loop, and what is unexplained of that. Takes one GPU and five minutes; steps may be named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from primbench.decompose.model import captured

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
HEADINGS = ("calls", "parts", "device", "of busy", "host", "of host", "step", "of step", "unexplained", "took")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*STEPS])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--keep", type=Path, help="a new folder for the suites and what was found")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each step")
    options = parser.parse_args()
    print(f"{'':18}" + "".join(f"{each:>12}" for each in HEADINGS))
    with tempfile.TemporaryDirectory() as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(exist_ok=True)
        for name in options.names:
            begun = time.monotonic()
            try:
                cells = _explained(name, options.device, kept, options.timeout)
            except Exception as error:
                print(f"{name:18}{type(error).__name__}: {' '.join(str(error).split())}"[:300], flush=True)
                continue
            cells.append(f"{time.monotonic() - begun:.0f} s")
            print(f"{name:18}" + "".join(f"{each:>12}" for each in cells), flush=True)


def _explained(name: str, device: str, folder: Path, timeout_s: float) -> list[str]:
    suite, found = folder / f"{name}.toml", folder / f"{name}.json"
    step = captured({"network": name, **STEPS.get(name, {})}, device)
    step.write(suite)
    distinct = len(step.counted())
    _free(device)
    command = [sys.executable, "-P", "-m", "primbench", "explain", str(suite), "--device", device, *SHORT]
    outputs = ["--json", str(found), "-o", str(folder / f"{name}.jsonl")]
    made = subprocess.run([*command, *outputs], capture_output=True, text=True, timeout=timeout_s, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr)
    (explained,) = json.loads(found.read_text())
    (folder / f"{name}.txt").write_text(made.stdout)
    numbers = {each["name"]: each for each in explained["numbers"]}
    cells = [str(explained["calls"]), str(distinct)]
    for each in ("device", "host", "step"):
        cells += _pair(numbers.get(each))
    unexplained_s = sum(row["seconds"] for row in explained["rows"] if row["name"] == "unexplained")
    step_s = numbers["step"]["step_s"]
    return [*cells, f"{unexplained_s / step_s:.1%}" if step_s else "-"]


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
