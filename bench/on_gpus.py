"""Figures and tests that need a GPU, one after the other on each GPU and side by side on several, within a time.

    python -m bench.on_gpus [NAME ...] [--budget 590] [--keep FOLDER]

From the root of the repository. A GPU takes the next name once it is free, and sees no other GPU; those that need two
come last, one at a time. Each has a log in FOLDER, where files that are worth keeping are as well. A budget is given
what is left; what passes its limit is asked to end, and killed 20 s later. Printed are how each ended, and the
last lines of its log. With --list, the names and the seconds that each may take.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

FIGURES = Path(__file__).resolve().parent
ROOT = FIGURES.parent
GRACE_S = 20.0
APART = ("mnist_cnn", "fathom_autoenc", "tf_cnn_inception3", "gpt2", "llama_block")  # steps whose parts may not add up
INJECTED = ("--device", "cuda:0", "--pairs", "5")
ARMS = [
    *("--arm", "host", "--arm", "runc:image=host,seccomp=docker,shm=16GiB,name=docker-profile"),
    *("--arm", "crun:image=host,seccomp=podman,shm=16GiB,name=podman-profile", "--self"),
    *("--min-time", "20ms", "--max-time", "100ms", "--no-check"),
]
RANKS = [
    *("--arm", "host:network=private,name=bridge", "--arm", "host:network=overlay,name=overlay", "--self"),
    *("--primitive", "model", *ARMS[-5:]),
]


class Step(NamedTuple):
    """words: after Python; {keep} is the folder, {budget} seconds. limit_s: in which it ends on an H100."""

    name: str
    words: Sequence[str]
    limit_s: float
    gpus: int = 1


def figure(name: str, limit_s: float, *words: str) -> Step:
    return Step(name, [str(FIGURES / f"{name}.py"), *words], limit_s)


def published(study: str, limit_s: float, *words: str, gpus: int = 1) -> Step:
    kept = [str(FIGURES / "published_studies.py"), study, "--keep", "{keep}", "--budget", "{budget}s"]
    return Step(study, [*kept, "--", *words], limit_s, gpus)


def by_pytest(name: str, limit_s: float, gpus: int = 1) -> Step:
    file = FIGURES.parent / "gpu" / f"{name}.py"
    return Step(name, ["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)], limit_s, gpus)


STEPS = (  # the longest first, so that no GPU ends long before the others; a study takes three pairs of each place
    published("snn_lnn", 545, *ARMS),
    published("fathom", 345, *ARMS),
    figure("injected_launch_cost", 300, *INJECTED, "--output", "{keep}/injected_launch_cost.jsonl"),
    figure("steps_apart", 520, "--trace", *APART, "--budget", "{budget}"),
    published("shared", 280, "--backend", "torch", "--min-time", "20ms", "--max-time", "100ms"),
    published("mnist_imdb", 290, *ARMS),
    figure("watch_cost", 260, "--seconds", "100", "--job", "launches", "--job", "copies"),
    published("tiny_imagenet", 200, *ARMS),
    published("tf_cnn", 300, *ARMS),
    by_pytest("test_norm_gpu", 150),
    by_pytest("test_conv_gpu", 150),
    figure("primitives", 120),
    by_pytest("test_fleet_gpu", 150, gpus=2),
    published("network", 330, "--backend", "torch", *RANKS, gpus=2),
)


def run(step: Step, gpus: Sequence[str], folder: Path, ends: float) -> None:
    """Ends it, and what it has started, by ``ends``, in time.monotonic()'s seconds."""
    begun, limit_s = time.monotonic(), min(step.limit_s, ends - time.monotonic() - GRACE_S)
    if limit_s < step.limit_s / 3:
        print(f"{step.name}: not begun, {limit_s:.0f} s are left of {step.limit_s:.0f}", flush=True)
        return
    words = [word.format(keep=folder, budget=round(limit_s - GRACE_S)) for word in step.words]
    searched = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # primbench, installed or not
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus), "PYTHONPATH": searched}
    with (folder / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        how = f"exit code {process.wait(limit_s)}"
    except subprocess.TimeoutExpired:
        how = f"told to end after {limit_s:.0f} s"
    end(process)
    print(f"{step.name} on {','.join(gpus)}: {how}, {time.monotonic() - begun:.0f} s", flush=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """And all of its group, some of which end later than it does, as what was measured is still to be written."""
    ends = time.monotonic() + GRACE_S
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < ends:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def take_turns(steps: SimpleQueue[Step], gpu: str, folder: Path, ends: float) -> None:
    while True:
        try:
            step = steps.get_nowait()
        except Empty:
            return
        run(step, [gpu], folder, ends)


def run_all(steps: Sequence[Step], gpus: Sequence[str], folder: Path, ends: float) -> None:
    alone = SimpleQueue[Step]()
    for step in steps:
        if step.gpus == 1:
            alone.put(step)
    lanes = [threading.Thread(target=take_turns, args=(alone, gpu, folder, ends)) for gpu in gpus]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    for step in steps:
        if step.gpus > 1:
            run(step, gpus[: step.gpus], folder, ends)


def main() -> None:
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("named", nargs="*", metavar="NAME", default=names)
    parser.add_argument("--budget", type=float, default=590.0, metavar="SECONDS")
    parser.add_argument("--keep", type=Path, default=Path("on-gpus"), metavar="FOLDER")
    parser.add_argument("--gpus", default="0,1", help="as CUDA_VISIBLE_DEVICES has them")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    if unknown := {*asked.named} - {*names}:
        parser.error(f"{' '.join(sorted(unknown))}: of {' '.join(names)}")
    steps = [step for step in STEPS if step.name in asked.named]
    if asked.list:
        print("\n".join(f"{step.name:24}{step.limit_s:5.0f} s, GPUs: {step.gpus}" for step in steps))
        return
    asked.keep.mkdir(parents=True, exist_ok=True)
    run_all(steps, asked.gpus.split(","), asked.keep, time.monotonic() + asked.budget)
    for log in sorted(asked.keep.glob("*.log")):
        print(f"\n== {log.stem}\n{log.read_text(errors='replace')[-1500:]}", flush=True)


if __name__ == "__main__":
    main()
