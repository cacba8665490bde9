"""Where the wall time of a pair of a study goes, phase by phase, in a table that adds up.

Has a study compare the host with itself on random cases, with a clock around what this process does, and divides what
it waits for by the phases of which workers tell. Options of `primbench study` may follow, such as --backend torch
--device cuda:0 --pairs 2 --min-time 10ms --max-time 40ms.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from bench.random_cases import suite
from primbench.cli import main as primbench
from primbench.cli import studying
from primbench.compare.sides import identity
from primbench.experiments.budget import Budget
from primbench.experiments.sharing import Sharing
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.writer import Writer
from primbench.workers import protocol
from primbench.workers.run import keep_all
from primbench.workers.session import Session

REST = "in no phase"
OF_MAIN = [
    ("start", Session, "start"),
    ("start", Session, "open"),
    ("inputs", Session, "prepare"),
    ("cases", Session, "run"),
    ("cases", Session, "run_in_turn"),
    ("end", Session, "end_all"),
    ("end", Session, "_end_all_but"),
    ("results file", Writer, "write"),
    ("how long, and whether", Sharing, "__call__"),
    ("how long, and whether", Budget, "may_begin"),
    ("how long, and whether", Budget, "suffices"),
    ("verdicts so far", studying, "_compared"),
    ("answers", protocol, "decode_answer"),
]
"""What the main process does, whose it is, and its name there; it waits for workers in the first five."""


class Cost(NamedTuple):
    """A pair of a study, on average. by_phase_s: adds up to wall_s; the last one is what is in no phase."""

    pairs: int
    cases: int
    wall_s: float
    by_phase_s: dict[str, float]


class Spans:
    """own_s: seconds in spans by name, without those in spans within them; only while there is one of REST."""

    def __init__(self) -> None:
        self.own_s: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._last_s = 0.0

    def _look(self) -> None:
        now_s = time.perf_counter()
        if self._open:
            self.own_s[self._open[-1]] += now_s - self._last_s
        self._last_s = now_s

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        if not self._open and name != REST:
            yield
            return
        self._look()
        self._open.append(name)
        try:
            yield
        finally:
            self._look()
            self._open.pop()

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call; where it makes a generator, the spans are from each of its answers to the next."""

        @wraps(call)
        def spanned(*given: Any, **named: Any) -> Any:
            with self.span(name):
                made = call(*given, **named)
            return self._each(name, made) if isinstance(made, Generator) else made

        return spanned

    def _each(self, name: str, made: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            while True:
                with self.span(name):
                    try:
                        line = next(made)
                    except StopIteration as end:
                        return end.value
                yield line
        finally:
            with self.span(name):
                made.close()


def cost(words: Sequence[str | Path], path: Path) -> Cost:
    """Of the pairs that `primbench study` runs in this process. path: of the results file that it makes."""
    spans = Spans()
    with ExitStack() as patched:
        for name, owner, attribute in OF_MAIN:
            patched.enter_context(patch.object(owner, attribute, spans.around(name, getattr(owner, attribute))))
        patched.enter_context(patch("primbench.cli.measuring.keep_all", spans.around(REST, keep_all)))
        with suppress(SystemExit):  # of a study too short for a verdict
            primbench(["study", *map(str, words), "-o", str(path)], standalone_mode=False)
    found = results_file.read(path)
    pairs = len({record.case.process for record in found.records})
    rest_s = spans.own_s.pop(REST)
    waited_s = {name: spans.own_s.pop(name, 0.0) for name in ("start", "cases")}
    by_phase_s = {
        **_started(found, waited_s["start"]),
        **_ran(found, waited_s["cases"], spans.own_s.pop("inputs", 0.0)),
    }
    by_phase_s |= {**spans.own_s, REST: rest_s}
    return Cost(
        pairs,
        len({record.case.key() for record in found.records}) // (2 * pairs),
        sum(by_phase_s.values()) / pairs,
        {name: lasted_s / pairs for name, lasted_s in by_phase_s.items()},
    )


def _started(found: Results, waited_s: float) -> dict[str, float]:
    """All workers of a pair start at once, so that the last of them tells what was waited for."""
    workers = {each.worker: each for each in found.workers}
    of_pair: dict[int, set[int]] = defaultdict(set)
    for record in found.records:
        if record.worker is not None:
            of_pair[record.case.process].add(record.worker)
    summed: dict[str, float] = defaultdict(float)
    for numbers in of_pair.values():
        last = max((workers[number] for number in numbers), key=lambda each: sum(each.phases_s.values()))
        for phase, lasted_s in last.phases_s.items():
            summed[f"start: {phase}"] += lasted_s
    return {**summed, "start: beside it": waited_s - sum(summed.values())}


def _ran(found: Results, waited_s: float, prepared_s: float) -> dict[str, float]:
    """While one worker is at work the others of the pair wait, but for the last look around, which all take at once."""
    summed: dict[str, float] = defaultdict(float, inputs=prepared_s)
    looked_s: dict[tuple[int, bytes], float] = defaultdict(float)
    for record, measured in ((record, record.measurement) for record in found.records if record.measurement):
        for phase, lasted_s in measured.phases_s.items():
            summed[phase] += lasted_s
        if measured.turns is not None:
            summed["calls that do not count"] += measured.turns.uncounted_s
            together, look_s = (record.case.process, identity(record.case)), measured.phases_s["look"]
            summed["look"] -= min(look_s, looked_s[together])
            looked_s[together] = max(look_s, looked_s[together])
    return {**summed, "turns that change": waited_s - sum(summed.values()) + prepared_s}


def table(found: Cost) -> Iterator[str]:
    a_case_s = found.wall_s / found.cases
    yield f"a pair of {found.cases} cases, the mean of {found.pairs}: {found.wall_s:.2f} s, {a_case_s:.3f} a case"
    for name, lasted_s in found.by_phase_s.items():
        yield f"{name:26} {lasted_s:9.3f} s {lasted_s / found.wall_s:7.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=84)
    parser.add_argument("--draw", type=int, default=1, help="seed of the sizes")
    parser.add_argument("-o", "--output", type=Path, help="keep the results file here")
    asked, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        cases, path = Path(folder, "random.toml"), asked.output or Path(folder, "random.jsonl")
        cases.write_text(suite(asked.cases, asked.draw, on_gpu="cpu" not in options and "cuda:0" in options))
        how = ["--arm", "host", "--self", "--fail-on", "never", "-q"]
        found = cost([cases, *how, *options], path)
    print(*table(found), sep="\n")


if __name__ == "__main__":
    main()
