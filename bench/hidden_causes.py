"""How often `primbench why` finds causes that were hidden from it, of real processes on this machine, and what it names
that is none.

Each seed is a trial: a case, a fast and a slow place that differ in 5 to 17 settings, of which none, one or two slow it
(`bench/hidden_places.py`). 24 seeds in a row are 8 with one cause, 8 with none, 4 with two, one each with two that act
only together and with either of which is enough, one that takes a whole slow place, which no few settings are, and one
that is asked about from a file. The command runs in a process of its own; a line of FILE each says what came of it, so
that a run is gone on with by the same words. A median trial takes half a minute. Needs a C compiler; root and runc
for some. Seeds below 1000 were used while the search was written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.hidden_places import KINDS, Busy, Case, Drawn, build, compile_library, draw
from primbench.experiments.selftest import least
from primbench.experiments.why.certificate import LOOKS
from primbench.results import file as results_file
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm

PRIMBENCH = (sys.executable, "-P", "-m", "primbench")
ON = ("--backend", "numpy", "--device", "cpu")
OF_SEVERAL = ("--processes", "5")
MOST_S = 600.0
"""Of a trial, ten minutes: the command ends by itself after its time budget."""


def calibrated(case: Case, folder: Path) -> Busy:
    """The least of three processes each, with the library idle and busy."""
    times_s = []
    for turns in (0, case.turns):
        library = folder / f"turns-{turns}.so"
        compile_library(library, case.hook or "", turns)
        times_s.append(min(_quick_s(case, library, folder / f"{turns}-{again}.jsonl") for again in range(3)))
    return Busy(times_s[0], (times_s[1] - times_s[0]) / case.turns)


def _quick_s(case: Case, library: Path, output: Path) -> float:
    """The lower quartile, which what else runs moves less than it does the median."""
    words = [*PRIMBENCH, *case.words.split(), *ON, "--max-time", "100ms", "-q", "-o", str(output)]
    subprocess.run(words, check=True, capture_output=True, env=os.environ | {"LD_PRELOAD": str(library)})
    (record,) = results_file.read(output).records
    output.unlink()
    if record.measurement is None or record.measurement.main is None:
        raise RuntimeError(f"{case.words}: {record.reason}")
    return record.measurement.main.quantile_s(0.25)


def asked(drawn: Drawn, budget_s: float, output: Path) -> tuple[dict[str, Any] | None, str, float]:
    """The answer as the command writes it, what it says where there is none, and the wall time."""
    slow = recorded(drawn, output.with_name("there.jsonl")) if drawn.is_elsewhere else drawn.slow
    case = () if drawn.is_elsewhere else ("--primitive", drawn.case.words, *ON)  # which the file has
    words = [drawn.fast, str(slow), *case, "--seed", str(drawn.seed)]
    started = time.monotonic()
    with terminal_that_agrees() as terminal:
        done = subprocess.run(
            [*PRIMBENCH, "why", *words, "--time-budget", f"{budget_s:g}s", "--json", "-", "-q", "-o", str(output)],
            stdin=terminal.slave, stdout=subprocess.PIPE, stderr=terminal.slave, text=True, check=False, timeout=MOST_S,
        )  # fmt: skip
        wall_s = time.monotonic() - started
        said = os.read(terminal.master, 1 << 16).decode(errors="replace")
    return (json.loads(done.stdout) if done.stdout.startswith("{") else None), said.strip()[-400:], wall_s


class Terminal(NamedTuple):
    """Its two ends, as openpty(3) has them."""

    master: int
    slave: int


@contextlib.contextmanager
def terminal_that_agrees() -> Iterator[Terminal]:
    """Whoever sits there has said yes to what a file would have run."""
    made = Terminal(*os.openpty())
    try:
        os.write(made.master, b"y\n")
        yield made
    finally:
        os.close(made.master)
        os.close(made.slave)


def recorded(drawn: Drawn, output: Path) -> Path:
    """A results file of the case by processes with the slow place's variables and umask."""
    arm = parse_arm(drawn.slow, known())
    words = [*PRIMBENCH, *drawn.case.words.split(), *ON, *OF_SEVERAL, "-q", "-o", str(output)]
    environment, umask = os.environ | arm.variables, int(arm.umask or "-1", 8)
    subprocess.run(words, check=True, capture_output=True, env=environment, umask=umask)
    return output


def judged(drawn: Drawn, answer: dict[str, Any] | None, said: str, wall_s: float) -> dict[str, Any]:
    """A line of the file."""
    line: dict[str, Any] = {"seed": drawn.seed, "kind": drawn.kind, "case": drawn.case.words, "causes": drawn.causes}
    line |= {"least": drawn.least, "fast": drawn.fast, "slow": drawn.slow, "wall_s": round(wall_s, 1)}
    if answer is None:
        return line | {"verdict": "no answer", "is_told": True, "holds": None, "said": said}
    known = answer["conclusion"]
    named = {answer["ingredients"][number] for proof in known["proofs"] for number in proof["differences"]}
    true = {*drawn.causes}
    verdict = "false name" if named - true else "right" if named == true else "undecided"
    left = known["unexplained"]
    return line | {
        "verdict": verdict,
        "is_told": drawn.least == 1 or is_told(drawn.least, known["scatter"]),
        "named": sorted(named),
        "outcome": known["outcome"],
        "effect": known["effect"],
        "unexplained": left,
        "holds": left["low"] <= 1 <= (left["high"] or math.inf) if left and verdict == "right" else None,
        "scatter": known["scatter"],
        "pairs": known["pairs"],
        "places": known["places"],
        "final": known["final"],
        "suspects": known["suspects"],
        "headline": answer["headline"],
    }


def is_told(ratio: float, scatter: float | None) -> bool:
    """Whether the pairs of a proof find a ratio in four of five tries, by how the trial's own processes scattered."""
    found = least(math.sqrt(2) * scatter, LOOKS[-1]) if scatter else None
    return found is not None and ratio > 1 + found


def table(lines: Iterable[dict[str, Any]]) -> None:
    done = [*lines]
    print("| kind | trials | right | false | undecided | no answer | told here: right | holds 1 | median, most |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in [*dict.fromkeys(KINDS), "all"]:
        mine = [each for each in done if kind in (each["kind"], "all")]
        if mine:
            print(f"| {' | '.join([kind, *_cells(mine)])} |")
    for each in done:
        if each["verdict"] == "false name":
            print(f"{each['seed']} {each['kind']}: {each['headline']}")


def _cells(trials: Sequence[dict[str, Any]]) -> list[str]:
    verdicts = Counter(each["verdict"] for each in trials)
    told = [each["verdict"] == "right" for each in trials if each["is_told"]]
    held = [each["holds"] for each in trials if each["holds"] is not None]
    walls = [each["wall_s"] for each in trials]
    counts = [len(trials), *(verdicts[each] for each in ("right", "false name", "undecided", "no answer"))]
    shares = [f"{sum(told)} of {len(told)}", f"{sum(held)} of {len(held)}"]
    return [*map(str, counts), *shares, f"{statistics.median(walls):.0f}, {max(walls):.0f} s"]


def held(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="2000:2120", metavar="A:B", help="from A, below B; default: %(default)s")
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="a line a trial; those there are kept")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the results file of each trial")
    parser.add_argument("--kinds", default=",".join(dict.fromkeys(KINDS)), help="of %(default)s")
    parser.add_argument(
        "--budget", type=float, default=290.0, metavar="S", help="of a trial, as --time-budget; default: %(default)g"
    )
    parser.add_argument("--for", dest="lasting_s", type=float, default=math.inf, metavar="S", help="begin none later")
    parser.add_argument("--table", action="store_true", help="of what the file holds, and nothing more")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    there = {each["seed"] for each in held(given.into)}
    seeds = [] if given.table else [seed for seed in range(first, last) if seed not in there]
    ends, busy = time.monotonic() + given.lasting_s, dict[Case, Busy]()
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="hidden-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
            folder = Path(name)
            drawn = draw(seed, folder)
            if drawn.kind not in given.kinds.split(",") or time.monotonic() > ends:
                continue
            if drawn.is_loaded and drawn.case not in busy:
                busy[drawn.case] = calibrated(drawn.case, folder)
                print(f"{drawn.case.words}: {busy[drawn.case]}", flush=True)
            build(drawn, folder, busy.get(drawn.case))
            line = judged(drawn, *asked(drawn, given.budget, folder / "why.jsonl"))
            line = json.loads(json.dumps(line).replace(name, "FOLDER"))
            if given.keep and (folder / "why.jsonl").exists():
                given.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / "why.jsonl", given.keep / f"{seed}.jsonl")
        with given.into.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{seed} {line['kind']} {line['verdict']} {line['wall_s']} s {line['causes']} {line['least']:.3g} -> "
              f"{line.get('outcome')} {line.get('named')} {line.get('said', '')}", flush=True)  # fmt: skip
    table(each for each in held(given.into) if first <= each["seed"] < last)


if __name__ == "__main__":
    main()
