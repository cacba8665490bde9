"""What published studies claimed, and what the same shows on equal stacks here: one table, in Markdown.

    published_studies.py [STUDY ...] [--keep FOLDER] [--budget 5min] [-- OPTIONS of primbench study]
    published_studies.py FILE ... [--into docs/measured.md]

Runs the studies that repeat a published one, all where none is named, one after the other; files that are named are
shown beside them, or alone. With --budget each begins no pair of processes that would end later, and ends once all is
settled; without, it is as long as docs/measured.md says.

With --keep a folder gets what suites/reference/studies holds of each, STUDY.jsonl.xz, with the GPU's name before it:
environment variables, configuration files and folders of paths are taken out, serial numbers become 1, 2 and so on, so
that what is one thing in two places stays one, and of single calls the first 1000 samples are left of a process. While
a study runs, its file lies there as it is; of one that was cut off, give the file again: STUDY.jsonl --keep FOLDER.
Ended by SIGTERM, this shows and keeps the pairs that were measured, and begins no further study.

As on one GPU, against a container, with the host once more:

    published_studies.py --keep out --budget 5min -- --arm host --arm runc:image=host,seccomp=docker,shm=16GiB \\
        --self --min-time 20ms --max-time 100ms --no-check
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

import primbench.suites as suites
from primbench.compare.claims import answer
from primbench.compare.pairs import compare
from primbench.devices import Device
from primbench.report import plain
from primbench.report.arm_tables import estimate_of, shown_claim
from primbench.report.document import Note, Table
from primbench.report.formats import markdown
from primbench.report.verdicts import shown_estimate
from primbench.results import file as results_file
from primbench.results.record import Line, model_of
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import Comparison
    from primbench.compare.ratio import Estimate
    from primbench.results.file import Results
    from primbench.spec.case import Case
    from primbench.spec.published import Claim

COLUMNS = ["study", "claim", "published", "case here", "place", "ratio here", "answer"]
BLOCK = re.compile(r"^\d+ numbers: .*?(?=^## )", re.MULTILINE | re.DOTALL)  # of docs/measured.md, to the next heading
MOST_SAMPLES, OF_SINGLE_CALLS = 1000, ("wall_s", "enqueue_single_s")
SERIALS = ("boot_id", "uuid", "roce_addresses")
# Of two parts or more, and none of the kernel's own files, whose names are the same everywhere.
PATH = re.compile(r"(?<![\w.:/~])(?:~|/(?!(?:proc|sys|dev)/)[\w.@+-]+)(?:/[\w.@+-]+)*/([\w.@+-]+)")


def studied(name: str, words: Sequence[str], folder: Path) -> tuple[Path, bool]:
    """The file of a study that was run, and whether it was ended by SIGTERM before it was done."""
    path = folder / f"{name}.jsonl"
    begun = time.monotonic()
    command = [sys.executable, "-P", "-m", "primbench", "study", name, *words, "--fail-on", "never", "-o", str(path)]
    shown = subprocess.DEVNULL if suites.study(name).published else None  # in the table, or in the study's own words
    with subprocess.Popen(command, stdout=shown) as study:
        signal.signal(signal.SIGTERM, lambda *_: study.terminate())  # upon which it keeps what it has
        code = study.wait()
    print(f"{name}: {time.monotonic() - begun:.0f} s, exit code {code}", file=sys.stderr, flush=True)
    return path, code in (128 + signal.SIGTERM, -signal.SIGTERM)


def kept(path: Path, folder: Path) -> Path:
    """The new file, in which nothing tells which machine it was. Raises FileError, OSError."""
    results, serials = results_file.read(path), dict[str, int]()
    found = folder / f"{_gpu(results)}{path.name.partition('.')[0]}.jsonl.xz"
    with lzma.open(found, "wb", preset=9) as sink:
        for line in (results.header, *results.workers, *results.records):
            document = _cut(_nameless(msgspec.to_builtins(line), serials))
            sink.write(results_file.encode(msgspec.convert(document, Line)))
    return found


def _gpu(results: Results) -> str:
    """Such as "h200-"."""
    models = [model_of(worker) or "" for worker in results.workers if Device.parse(worker.device).is_gpu]
    words = [word for model in models for word in model.lower().split() if word != "nvidia"]
    return f"{words[0]}-" if words else ""


def _nameless(value: Any, serials: dict[str, int]) -> Any:
    if isinstance(value, str):
        return PATH.sub(r"\1", value)
    if isinstance(value, list):
        return [_nameless(each, serials) for each in value]
    if not isinstance(value, dict):
        return value
    found = {_nameless(key, serials): _nameless(each, serials) for key, each in value.items()}
    found |= {name: _numbered(found[name], serials) for name in SERIALS if name in found}
    return found | ({"variables": {}, "files": {}} if "python_version" in found else {})


def _numbered(value: Any, serials: dict[str, int]) -> Any:
    if isinstance(value, list):
        return [_numbered(each, serials) for each in value]
    return None if value is None else str(serials.setdefault(value, len(serials) + 1))


def _cut(document: dict[str, Any]) -> dict[str, Any]:
    measured = document.get("measurement") or {}
    for samples in filter(None, map(measured.get, OF_SINGLE_CALLS)):
        del samples["samples_s"][MOST_SAMPLES:]
        samples["loops_s"] = [each for each in samples["loops_s"] if each[0] < MOST_SAMPLES]
        del samples["queued_s"][len(samples["loops_s"]) :]
    return document


def shown_of(files: Sequence[Path]) -> Table:
    """A row a number: what was published of a claim, against what a case of it takes in a place here."""
    compared = [_compared(path) for path in files]
    rows = [[name, *row] for name, _, comparison in compared for row in _rows(comparison)]
    notes = [_counted(rows), *(_told(*each) for each in compared)]
    return Table.of_rows("What was published, and equal stacks", COLUMNS, rows, [Note(note) for note in notes if note])


def _counted(rows: Sequence[Sequence[str]]) -> str:
    counts = Counter(row[-1] for row in rows)
    counted = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    return f"{len(rows)} numbers: {counted}." if rows else ""


def in_page(files: Sequence[Path], text: str) -> str:
    """A page with its tables, one a study below what is told of it, made anew; files of others are left out."""
    compared = [_compared(path) for path in files if _repeats(path)]
    counted = _counted([row for _, _, comparison in compared for row in _rows(comparison)])
    parts = [part for each in compared for part in (_told(*each), _claims(each[-1]))]
    return BLOCK.sub(lambda _: "\n\n".join([counted, *parts]) + "\n\n", text)


def _claims(comparison: Comparison) -> str:
    """A row a claim, over all cases and places of it: within what all their intervals lie, and how many agree."""
    rows = [["claim", "published", "here", "answer"], ["---"] * 4]
    for claim, estimates in itertools.groupby(_estimates(comparison), key=lambda each: each[0]):
        found = [each for *_, each in estimates]
        ends = [end for each in found if each.interval for end in each.interval]
        within = f"{min(ends):.3f} to {max(ends):.3f}" if ends else "-"
        counts = Counter(answer(claim, each) for each in found)
        answers = ", ".join(f"{count} {words}" for words, count in counts.most_common())
        rows.append([*map(plain.markdown, (claim.says, shown_claim(claim), within, answers))])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _repeats(path: Path) -> bool:
    """Whether it is of a study that repeats a published one."""
    name = _study_of(path)
    return name in suites.studies() and suites.study(name).published is not None


def _compared(path: Path) -> tuple[str, Results, Comparison]:
    """A study of a file, beside what its suite says now of what was published. Raises FileError."""
    results = results_file.read(path)
    name, study = _study_of(path), results.header.study
    if study is not None and name in suites.studies():
        said = replace(study, published=suites.study(name).published)
        results = replace(results, header=replace(results.header, study=said))
    return name, results, compare(results)


def _study_of(path: Path) -> str:
    """Its name, without that of a GPU before it."""
    name = path.name.partition(".")[0]
    return name.partition("-")[2] or name


def _estimates(comparison: Comparison) -> Iterator[tuple[Claim, Case, str, Estimate]]:
    """What a claim is of: cases, and the places where each was compared."""
    for beside in comparison.published.claims if comparison.published else ():
        for case in (each.case for each in beside.cases):
            for place in (arm.name for arm in comparison.arms):
                if found := estimate_of(case, place, comparison):
                    yield beside.claim, case, place, found


def _rows(comparison: Comparison) -> Iterator[list[str]]:
    for claim, case, place, found in _estimates(comparison):
        words = name_of(case, with_place=False)
        yield [claim.says, shown_claim(claim), words, place, shown_estimate(found), answer(claim, found)]


def _told(name: str, results: Results, comparison: Comparison) -> str:
    """Where, when and how often the study was run, and what it repeats."""
    pairs = sorted({each.pairs for each in comparison.estimates if each.primary})
    source = comparison.published.source if comparison.published else "nothing that was published"
    counted = " to ".join(str(each) for each in dict.fromkeys([*pairs[:1], *pairs[-1:]])) or "no"
    day = results.header.started_utc[:10]
    here = f"{_where(results)}, {day}, times as long as in {comparison.baseline}, {counted} pairs"
    return f"{name}: {source}. Here: {here}."


def _where(results: Results) -> str:
    models = [gpu.name for worker in results.workers for gpu in worker.environment.devices.gpus or [] if gpu.name]
    return ", ".join(dict.fromkeys(models)) or results.header.environment.machine.cpu_model or "an unknown CPU"


def main() -> None:
    repeated = [name for name in suites.studies() if suites.study(name).published]
    own = sys.argv[1:]
    own, others = (own[: own.index("--")], own[own.index("--") + 1 :]) if "--" in own else (own, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("named", nargs="*", metavar="STUDY|FILE", help=f"of {', '.join(repeated)}, or files of such")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for files of the studies, without machines' names")
    parser.add_argument("--budget", metavar="DURATION", help="for each study, as --time-budget of primbench study")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="whose table this is made anew, docs/measured.md")
    asked = parser.parse_args(own)
    ending = ["--until", "settled", "--time-budget", asked.budget] if asked.budget else []
    with tempfile.TemporaryDirectory() as folder:
        found = _found(asked.named or repeated, [*ending, *others], asked.keep, Path(folder))
        print(markdown.of_table(shown_of(found)), flush=True)
        if asked.into:
            asked.into.write_text(in_page(found, asked.into.read_text()))


def _found(named: Sequence[str], words: Sequence[str], keep: Path | None, made_in: Path) -> list[Path]:
    """Files, of studies that are run or that were named; after one that was ended no further study is run."""
    folder, found = keep or made_in, []
    folder.mkdir(parents=True, exist_ok=True)
    for each in named:
        is_run = each in suites.studies()
        path, is_cut = studied(each, words, folder) if is_run else (Path(each), False)
        if path.exists():
            found.append(kept(path, folder) if keep else path)
        if is_run and keep:
            path.unlink(missing_ok=True)
        if is_cut:
            break
    return found


if __name__ == "__main__":
    main()
