"""Whether a study of a captured step explains it where one place makes launches dearer, and nothing else.

A model's step of many small operators is captured, and measured with its parts on the host and on the host again,
where each launch waits for some microseconds. Nothing of primbench is told: that arm preloads a library of one
function, which stands before each loop over elements that torch prepares, as it does for most operators but products
and views, on a GPU as well, whose kernel it then launches. Printed are what was injected, what `primbench study` says
of the step, and whether what it explains lies within the interval.

The default is a step whose data are small, and a short wait. One that reads megabytes, or lasts several times as long,
finds less of them in the caches that it shares, and loses more than is injected: a pause of 2.5 ms before a step of
fathom_autoenc, not counted, made it 0.47 ms longer, as much as the same time spread over its loops did beyond itself.
Needs gcc and torch. Five pairs of the default take two minutes on a CPU. On a GPU each operator is timed in several
ways, so that four pairs take four minutes; the wait is longer there, since the step scatters more: on the host of an
H100, in a sandbox, from 2.6 to 6 ms. Ended by SIGTERM, it shows the pairs that were measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

import msgspec

from primbench.compare.pairs import compare
from primbench.compare.step import StepComparison
from primbench.results import file as results_file
from primbench.units import format_time

# void at::TensorIteratorBase::build(TensorIteratorConfig&), in aten/src/ATen/TensorIterator.h. Python loads extensions
# where RTLD_NEXT is blind, so that the library is asked by its name.
WAITING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#define BUILD _ZN2at18TensorIteratorBase5buildERNS_20TensorIteratorConfigE
#define NAME_OF(symbol) #symbol
#define NAME(symbol) NAME_OF(symbol)

static void wait_us(double us) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1e6 + (now.tv_nsec - begun.tv_nsec) * 1e-3 < us);
}

void BUILD(void *iterator, void *config) {
    static void (*next)(void *, void *);
    if (!next) next = (void (*)(void *, void *))dlsym(dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD), NAME(BUILD));
    wait_us(%s);
    next(iterator, config);
}
"""


def built(folder: Path, cost_us: float) -> Path:
    """The library that is preloaded."""
    source, library = folder / "dearer.c", folder / "dearer.so"
    source.write_text(WAITING % cost_us)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run(*words: object) -> None:
    """Ended by SIGTERM, it ends what it runs, which keeps what was measured, and raises KeyboardInterrupt."""
    with subprocess.Popen([sys.executable, "-P", "-m", "primbench", *map(str, words)]) as child:
        try:
            status = child.wait()
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise
    if status:
        sys.exit(status)


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def study(folder: Path, path: Path, told: Path, asked: argparse.Namespace) -> None:
    """path: of the results file. told: where the comparison goes, unless it is ended before."""
    step = folder / "step.toml"
    library = built(folder, asked.cost)
    run("capture", f"model:{asked.model}", "-o", step, "--device", asked.device, "--batch-size", asked.batch_size)
    threads = "threads=1" if asked.device == "cpu" else ""
    arms = [f"host:{threads}".rstrip(":"), f"host:{threads},name=dearer,preload={library}".replace(":,", ":")]
    brief = ("--min-time", "5ms", "--max-time", "40ms", "--no-check", "--fail-on", "never")
    two = ("--arm", arms[0], "--arm", arms[1], "--device", asked.device, "--pairs", asked.pairs)
    run("study", step, *two, *brief, "-o", path, "--json", told)


def compared(path: Path, told: Path) -> list[StepComparison]:
    """As the study did, which takes seconds for so many cases; of one that was ended, of the pairs that it has."""
    if told.exists():
        return [
            msgspec.convert(arm["step"], StepComparison) for arm in json.loads(told.read_text())["arms"] if arm["step"]
        ]
    arms = compare(results_file.read(path)).arms if path.exists() else []
    return [arm.step for arm in arms if arm.step]


def found(step: StepComparison, cost_us: float) -> str:
    low, high = step.whole.interval or (float("nan"), float("nan"))
    lines = [
        f"injected: {cost_us:g} us a launch",
        f"longer: {step.whole.seconds * 1e3:.3f} ms [{low * 1e3:.3f}, {high * 1e3:.3f}], {step.pairs} pairs",
        f"explained: {step.explained_s * 1e3:.3f} ms, within the interval: {'yes' if step.is_explained else 'no'}",
    ]
    for change in step.changes:
        each = f", {change.calls} x {format_time(change.each_s)}" if change.each_s and change.each_s > 0 else ""
        lines.append(f"  {change.name:16} {change.seconds * 1e3:8.3f} ms{each}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--model", default="fathom_memnet")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--cost", type=float, help="microseconds a launch; default: 3, on a GPU 20")
    parser.add_argument("--pairs", type=int, help="default: 5, on a GPU 4")
    parser.add_argument("--output", type=Path, help="keep the study's results file")
    asked = parser.parse_args()
    cost_us, pairs = (3.0, 5) if asked.device == "cpu" else (20.0, 4)
    asked.cost, asked.pairs = asked.cost or cost_us, asked.pairs or pairs
    signal.signal(signal.SIGTERM, _unwind)
    with tempfile.TemporaryDirectory() as folder:
        path, told = asked.output or Path(folder) / "study.jsonl", Path(folder) / "told.json"
        with contextlib.suppress(KeyboardInterrupt):
            study(Path(folder), path, told, asked)
        steps = compared(path, told)
    print(*[found(step, asked.cost) for step in steps] or ["no pair has the whole step and its parts"], sep="\n")


if __name__ == "__main__":
    main()
