"""How often `primbench why` finds causes that were hidden from it, of real processes on this machine, and what it names
that is none.

Each seed is a trial: a case, a fast and a slow place that differ in 5 to 17 settings, of which none, one or two slow it
(`bench/hidden_places.py`). 24 seeds in a row are 8 with one cause, 8 with none, 4 with two, one each with two that act
only together and with either of which is enough, one that is asked about from a file, and one whose cause is outside:
all of the slow place together, or a program in front of what was recorded. The command runs in a process of its own; a
line of FILE each says what came of it, so that a run is gone on with by the same words. A median trial takes half a
minute. Needs a C compiler; root and runc for some. Seeds below 1000 were used while the search was written.

Right are the causes that are hidden, and no other; of none no name; of one that is outside no name, and that something
is left which no setting makes. A name more is a false one. What is less is undecided, and it is counted whether the
answer says what would decide it.
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
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.hidden_places import KINDS, Drawn, build, draw
from bench.hidden_programs import Busy, compile_busy
from bench.hidden_settings import ON, PRIMBENCH, Case
from primbench.experiments.selftest import least
from primbench.experiments.why.certificate import LOOKS
from primbench.results import file as results_file
from primbench.runtimes.inherited import of_process
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm

OF_SEVERAL = ("--processes", "5")
LEAST_PROCESSES = 4
AGAIN = 1_000_000
"""Added to a seed: the order in which it is asked again."""
MOST_S = 600.0
"""Of a trial, ten minutes: the command ends by itself after its time budget."""


def calibrated(case: Case, folder: Path) -> Busy:
    """The least of some processes each, with the library idle and busy; of more, as long as others' work hides that."""
    times_s: dict[int, list[float]] = {0: [], case.turns: []}
    while len(times_s[0]) < LEAST_PROCESSES or min(times_s[case.turns]) <= min(times_s[0]):
        for turns, found_s in times_s.items():
            library = folder / f"turns-{turns}.so"
            compile_busy(library, case.hook or "", turns)
            found_s.append(_quick_s(case, library, folder / "calibration.jsonl"))
    call_s = min(times_s[0])
    return Busy(call_s, (min(times_s[case.turns]) - call_s) / case.turns)


def _quick_s(case: Case, library: Path, output: Path) -> float:
    """The lower quartile, which what else runs moves less than it does the median."""
    words = [*PRIMBENCH, *case.words.split(), *ON, "--max-time", "100ms", "-q", "-o", str(output)]
    subprocess.run(words, check=True, capture_output=True, env=os.environ | {"LD_PRELOAD": str(library)})
    (record,) = results_file.read(output).records
    output.unlink()
    if record.measurement is None or record.measurement.main is None:
        raise RuntimeError(f"{case.words}: {record.reason}")
    return record.measurement.main.quantile_s(0.25)


def asked(drawn: Drawn, order: int, budget_s: float, output: Path) -> tuple[dict[str, Any] | None, str, float]:
    """The answer as the command writes it, what it says where there is none, and the wall time. order: a seed of it."""
    slow = recorded(drawn, output.with_name("there.jsonl")) if drawn.is_recorded else drawn.slow
    case = () if drawn.is_recorded else ("--primitive", drawn.case.words, *ON)  # which the file has
    words = [drawn.fast, str(slow), *case, "--seed", str(order)]
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
    """A results file of the case by processes with what the slow place has a process begin with."""
    arm = parse_arm(drawn.slow, known())
    front = [str(output.with_name("filtered"))] if drawn.is_filtered else []
    threads = () if arm.placement.threads is None else ("--threads", str(arm.placement.threads))
    words = [*front, *PRIMBENCH, *drawn.case.words.split(), *ON, *threads, *OF_SEVERAL, "-q", "-o", str(output)]

    def begin() -> None:
        for _, takes in of_process(arm):
            takes()

    subprocess.run(words, check=True, capture_output=True, env=os.environ | arm.variables, preexec_fn=begin)
    return output


def judged(drawn: Drawn, answer: dict[str, Any] | None, said: str, wall_s: float) -> dict[str, Any]:
    """A line of the file."""
    line: dict[str, Any] = {"seed": drawn.seed, "kind": drawn.kind, "case": drawn.case.words, "causes": drawn.causes}
    line |= {"least": drawn.least, "fast": drawn.fast, "slow": drawn.slow, "wall_s": round(wall_s, 1)}
    if answer is None:
        return line | {"verdict": "no answer", "is_told": True, "holds": None, "said": said}
    known = answer["conclusion"]
    named = {answer["ingredients"][number] for proof in known["proofs"] for number in proof["differences"]}
    verdict = verdict_of(drawn, answer, named)
    left = known["unexplained"]
    return line | {
        "verdict": verdict,
        "is_told": drawn.least == 1 or is_told(drawn.least, known["scatter"]),
        "tells": known["pairs_to_decide"] is not None or not known["final"],
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


def verdict_of(drawn: Drawn, answer: dict[str, Any], named: set[str]) -> str:
    if named - {*drawn.causes}:
        return "false name"
    is_right = named == {*drawn.causes}
    if drawn.kind == "outside":
        is_right &= is_left_outside(answer)
    return "right" if is_right else "undecided"


def is_left_outside(answer: dict[str, Any]) -> bool:
    """Whether it says that no setting makes the slow place slow, or what was recorded of it."""
    effect, recorded = answer["conclusion"]["effect"], answer["recorded"]
    if recorded:
        return bool(effect and effect["high"] and recorded["low"] > effect["high"])
    return bool(answer["conclusion"]["outcome"] == "not found")


def is_told(ratio: float, scatter: float | None) -> bool:
    """Whether the pairs of a proof find a ratio in four of five tries, by how the trial's own processes scattered."""
    found = least(math.sqrt(2) * scatter, LOOKS[-1]) if scatter else None
    return found is not None and ratio > 1 + found


def table(lines: Iterable[dict[str, Any]]) -> None:
    done = [*lines]
    print(
        "| kind | trials | right | false | undecided: says what would decide "
        "| no answer | told here: right | holds 1 | median, most |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in [*dict.fromkeys(KINDS), "all"]:
        mine = [each for each in done if kind in (each["kind"], "all")]
        if mine:
            print(f"| {' | '.join([kind, *_cells(mine)])} |")
    for each in done:
        if each["verdict"] != "right":
            print(f"{each['seed']} {each['kind']} {each['verdict']}: {each['causes']}: {each.get('headline')}")


def _cells(trials: Sequence[dict[str, Any]]) -> list[str]:
    verdicts = Counter(each["verdict"] for each in trials)
    told = [each["verdict"] == "right" for each in trials if each["is_told"]]
    held = [each["holds"] for each in trials if each["holds"] is not None]
    walls = [each["wall_s"] for each in trials]
    says = sum(each["verdict"] == "undecided" and each["tells"] for each in trials)
    undecided = f"{verdicts['undecided']}: {says}" if verdicts["undecided"] else 0
    counts = [len(trials), verdicts["right"], verdicts["false name"], undecided, verdicts["no answer"]]
    shares = [f"{sum(told)} of {len(told)}", f"{sum(held)} of {len(held)}"]
    return [*map(str, counts), *shares, f"{statistics.median(walls):.0f}, {max(walls):.0f} s"]


def held(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tried(seed: int, order: int, busy: dict[Case, Busy], given: argparse.Namespace) -> dict[str, Any]:
    """busy: of cases that were calibrated before; grows."""
    with tempfile.TemporaryDirectory(prefix="hidden-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        drawn = draw(seed, folder)
        if drawn.carrier and drawn.case not in busy:
            busy[drawn.case] = calibrated(drawn.case, folder)
            print(f"{drawn.case.words}: {busy[drawn.case]}", flush=True)
        build(drawn, folder, busy.get(drawn.case))
        found = judged(drawn, *asked(drawn, order, given.budget, folder / "why.jsonl"))
        if given.keep and (folder / "why.jsonl").exists():
            given.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "why.jsonl", given.keep / f"{order}.jsonl")
    line: dict[str, Any] = json.loads(json.dumps(found).replace(name, "FOLDER"))
    print(f"{seed} {line['kind']} {line['verdict']} {line['wall_s']} s {line['causes']} {line['least']:.3g} -> "
          f"{line.get('outcome')} {line.get('named')} {line.get('said', '')}", flush=True)  # fmt: skip
    return line


def replay(lines: Iterable[dict[str, Any]], busy: dict[Case, Busy], given: argparse.Namespace) -> None:
    """Those that found all causes, from nothing and in another order."""
    found = [each for each in lines if each["verdict"] == "right" and each["causes"]][: given.replay]
    again = [tried(each["seed"], AGAIN + each["seed"], busy, given) for each in found]
    same = sum(one["named"] == other.get("named") for one, other in zip(found, again, strict=True))
    print(f"asked again: the same causes in {same} of {len(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="3000:3120", metavar="A:B", help="from A, below B; default: %(default)s")
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="a line a trial; those there are kept")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the results file of each trial")
    parser.add_argument("--kinds", default=",".join(dict.fromkeys(KINDS)), help="of %(default)s")
    parser.add_argument(
        "--budget", type=float, default=290.0, metavar="S", help="of a trial, as --time-budget; default: %(default)g"
    )
    parser.add_argument("--for", dest="lasting_s", type=float, default=math.inf, metavar="S", help="begin none later")
    parser.add_argument("--replay", type=int, metavar="N", help="the first N of the file that are right, once more")
    parser.add_argument("--table", action="store_true", help="of what the file holds, and nothing more")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # which a place is to have by itself
    seeds, kinds = range(*map(int, given.seeds.split(":"))), given.kinds.split(",")
    there = {each["seed"] for each in held(given.into)}
    left = [seed for seed in seeds if seed not in there and KINDS[seed % len(KINDS)] in kinds]
    ends, busy = time.monotonic() + given.lasting_s, dict[Case, Busy]()
    for seed in [] if given.table or given.replay else left:
        if time.monotonic() < ends:
            line = tried(seed, seed, busy, given)
            with given.into.open("a") as file:
                file.write(json.dumps(line) + "\n")
    mine = [each for each in held(given.into) if each["seed"] in seeds]
    if given.replay:
        replay(mine, busy, given)
    else:
        table(mine)


if __name__ == "__main__":
    main()
