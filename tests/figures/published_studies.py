"""What published studies claimed, and what the same shows on equal stacks here: one table, in Markdown.

    published_studies.py [STUDY ...] [--keep FOLDER] [--budget 5min] [-- OPTIONS of primbench study]
    published_studies.py FILE ...

Runs the studies that repeat a published one, all where none is named, one after the other; files that are named are
shown beside them, or alone. A study that is cut off leaves what it has found in its file, which --keep keeps. With
--budget each begins no pair of processes that would end later, and ends once all is settled; without, it is as long as
docs/studies.md says. As on one GPU, against a container, with the host once more:

    published_studies.py --keep out --budget 5min -- --arm host --arm runc:image=host,seccomp=docker,shm=16GiB \\
        --self --min-time 20ms --max-time 100ms --no-check
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import primbench.suites as suites
from primbench.compare.pairs import compare
from primbench.compare.shown import shown_ratio
from primbench.report import table
from primbench.report.verdicts import UNKNOWN, in_words, shown_estimate
from primbench.results import file as results_file
from primbench.spec.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
    from primbench.results.file import Results

COLUMNS = ["study", "published", "cases here", "place", "times as long", "host again", "verdict"]


def studied(name: str, words: Sequence[str], folder: Path) -> Path:
    """The file of a study that was run."""
    path = folder / f"{name}.jsonl"
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "study", name, *words, "--fail-on", "never", "-o", str(path)],
        stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    print(f"{name}: {time.monotonic() - begun:.0f} s, exit code {done.returncode}", file=sys.stderr, flush=True)
    return path


def claims(files: Sequence[Path]) -> table.Table:
    """A row a claim and place that is not the baseline."""
    read = [(path.name.partition(".")[0], results_file.read(path)) for path in files]
    compared = [(name, results, compare(results)) for name, results in read if results.records]
    rows = [row for name, _, comparison in compared for row in _rows(name, comparison)]
    return table.Table("What was published, and equal stacks", COLUMNS, rows, [_told(*each) for each in compared])


def _rows(name: str, comparison: Comparison) -> Iterator[list[str]]:
    for beside in comparison.published.claims if comparison.published else ():
        claim = beside.claim
        said = claim.says + (f" ({shown_ratio(claim.ratio)})" if claim.ratio is not None else "")
        own = [(arm, _of(arm, claim.id)) for arm in comparison.arms]
        if not any(cases for _, cases in own):
            yield [name, said, "none", *[UNKNOWN] * 3, "not measured here"]
            continue
        for arm, cases in own:
            what = name_of(cases[0].case, with_place=False) if len(cases) == 1 else f"{len(cases)} cases"
            yield [name, said, what, arm.name, _ratios(cases), _ratios(_again(comparison, cases)), _verdicts(cases)]


def _of(arm: ArmComparison, label: str | None) -> list[CaseComparison]:
    """Its cases that have a verdict and show what was claimed."""
    return [each for each in arm.cases if each.deciding and label and each.case.labels.get("id") == label]


def _again(comparison: Comparison, cases: Sequence[CaseComparison]) -> list[CaseComparison]:
    """The same cases of the baseline against itself."""
    wanted = [each.case for each in cases]
    return [each for each in (comparison.again.cases if comparison.again else ()) if each.case in wanted]


def _ratios(cases: Sequence[CaseComparison]) -> str:
    found = [each.deciding for each in cases if each.deciding]
    if len(found) == 1:
        return shown_estimate(found[0])
    ends = [shown_ratio(end(each.ratio for each in found)) for end in (min, max)] if found else []
    return " to ".join(ends) or UNKNOWN


def _verdicts(cases: Sequence[CaseComparison]) -> str:
    counts = Counter(in_words(each.verdict) for each in cases if each.verdict)
    counts.update(f"accuracy {each.learnt.accuracy.verdict}" for each in cases if each.learnt and each.learnt.accuracy)
    return ", ".join(words if len(cases) == 1 else f"{count} {words}" for words, count in counts.most_common())


def _told(name: str, results: Results, comparison: Comparison) -> str:
    """Where, when and how often the study was run, and what it repeats."""
    pairs = max((each.pairs for each in comparison.estimates), default=0)
    models = dict.fromkeys(
        gpu.name for worker in results.workers for gpu in worker.environment.devices.gpus or [] if gpu.name
    )
    where = ", ".join(models) or results.header.environment.machine.cpu_model
    source = comparison.published.source if comparison.published else "nothing that was published"
    here = f"{where}, {results.header.started_utc[:10]}, times as long as in {comparison.baseline}, up to {pairs} pairs"
    return f"{name}: {source}. Here: {here}."


def main() -> None:
    repeated = [name for name in suites.studies() if suites.study(name).published]
    own = sys.argv[1:]
    own, others = (own[: own.index("--")], own[own.index("--") + 1 :]) if "--" in own else (own, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("named", nargs="*", metavar="STUDY|FILE", help=f"of {', '.join(repeated)}, or files of such")
    parser.add_argument("--keep", type=Path, help="a folder for the files of the studies that are run")
    parser.add_argument("--budget", metavar="DURATION", help="for each study, as --time-budget of primbench study")
    asked = parser.parse_args(own)
    ending = ["--until", "settled", "--time-budget", asked.budget] if asked.budget else []
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        found = [
            studied(each, [*ending, *others], kept) if each in suites.studies() else Path(each)
            for each in asked.named or repeated
        ]
        print(table.markdown(claims([each for each in found if each.exists()])), flush=True)


if __name__ == "__main__":
    main()
