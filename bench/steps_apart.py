"""Do the parts of a step add up? Twelve steps, each captured, measured part by part and as a whole, and explained.

A row a step, once it is measured: the sum of its parts' device times over its own, that of their enqueue times over its
own, the larger of the two over its period in a loop, and what is unexplained of that. With --trace, device times are
what kernels took, without the gaps between them; "busy" stands beside those of a step of which all were logged. Takes
one GPU and less than five minutes; steps may be named. Of the step that is under way when they are over, or when the
script is ended by SIGTERM, are shown the parts that were measured, which are those that take most: sums then are lower
bounds, and nothing is said of what is unexplained. With --keep every record lies in FOLDER/steps.jsonl as it comes.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

from primbench.decompose.model import captured
from primbench.errors import FileError
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.record import Record
from primbench.results.step_explained import Explained
from primbench.results.step_sums import explained
from primbench.suites import read, study

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
HEADINGS = ("calls", "parts", "device", "of device", "host", "of host", "step", "of step", "unexplained")
ENDING_S = 10.0  # in which it ends that measures; it keeps each part as it comes
LOOK_S = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*STEPS])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--keep", type=Path, help="a new folder for the suites and what was measured")
    parser.add_argument("--budget", type=float, default=270.0, help="seconds for all of it; later steps are left out")
    parser.add_argument("--trace", action="store_true", help="takes half as long again")
    options = parser.parse_args()
    end_s = time.monotonic() + options.budget
    signal.signal(signal.SIGTERM, _unwind)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        kept = options.keep or Path(folder)
        kept.mkdir(exist_ok=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as capturing:  # it then frees the GPU
            all_suites = capturing.map(_captured, options.names, repeat(options.device), repeat(kept))
            suites = [suite for suite in all_suites if suite is not None]
        print(f"{len(suites)} steps captured, {end_s - time.monotonic():.0f} s left", flush=True)
        if suites:
            _measure(suites, kept / "steps.jsonl", ["--device", options.device, *["--trace"] * options.trace], end_s)


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is there is shown, whoever asks again
    raise KeyboardInterrupt


def _measure(suites: list[Path], records: Path, words: list[str], end_s: float) -> None:
    """Show each step as it ends, and at the end what there is of the others."""
    print(f"{'':20}" + "".join(f"{each:>14}" for each in HEADINGS), flush=True)
    parts = {suite: len(read(suite)) for suite in suites}
    budget = ["--time-budget", f"{max(1.0, end_s - time.monotonic()):.0f}s"]
    command = [sys.executable, "-P", "-m", "primbench", "explain", *map(str, suites), *words, *budget, *SHORT]
    measuring = subprocess.Popen([*command, "-o", str(records)], stdout=subprocess.DEVNULL)
    try:
        while measuring.poll() is None and time.monotonic() < end_s:
            time.sleep(LOOK_S)
            found = _by_step(records)
            for suite in [suite for suite, count in parts.items() if len(_of(suite, found)) == count]:
                print(_row(suite, parts.pop(suite), found), flush=True)
    finally:
        measuring.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            measuring.wait(ENDING_S)
        measuring.kill()
        found = _by_step(records)
        for suite, count in parts.items():
            print(_row(suite, count, found), flush=True)


def _captured(name: str, device: str, folder: Path) -> Path | None:
    """The suite; all in one process, since to start torch takes longer."""
    suite = folder / f"{name}.toml"
    try:
        step = captured(build("model", {"network": name, **STEPS.get(name, {})}), device)
        step.write(suite)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())}"[:300], flush=True)
        return None
    finally:
        _free(device)
    return suite


def _by_step(path: Path) -> dict[str, list[Record]]:
    """By their steps' titles, what is there by now."""
    found: dict[str, list[Record]] = {}
    with contextlib.suppress(FileError):  # where not even its first line is there
        for record in results_file.read_in_part(path)[0].records:
            found.setdefault(record.case.labels["step"], []).append(record)
    return found


def _of(suite: Path, found: dict[str, list[Record]]) -> list[Record]:
    """A title names the file where there are several."""
    network = f"a step of {suite.stem},"
    return [each for title, records in found.items() if title.startswith(network) for each in records]


def _row(suite: Path, parts: int, found: dict[str, list[Record]]) -> str:
    """parts: entries of the suite, the whole among them."""
    records, captured = _of(suite, found), study(suite).captured
    step = explained(records, captured=captured) if records else None
    if step is None:
        return f"{suite.stem:20} not measured within the budget"
    measured = f"{len(records) - 1} of {parts - 1}" if len(records) < parts else str(parts - 1)
    return f"{suite.stem:20}" + "".join(f"{each:>14}" for each in [str(step.calls), measured, *_cells(step)])


def _cells(step: Explained) -> list[str]:
    numbers = {each.name: each for each in step.numbers}
    cells = []
    for names in (("busy", "device"), ("host",), ("step",)):
        number = next((numbers[name] for name in names if name in numbers), None)
        if number is None or number.ratio is None or number.step_s is None:
            cells += ["-", "-"]
        else:
            cells += [
                f"{number.step_s * 1e3:.3f} ms",
                f"{'>= ' * number.is_least}{number.ratio:.3f}{' busy' * (number.name == 'busy')}",
            ]
    unexplained = step.unexplained_fraction
    return [*cells, "-" if unexplained is None else f"{unexplained:.1%}"]


def _free(device: str) -> None:
    import gc

    import torch

    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
