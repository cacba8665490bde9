"""No code reads a sentence that other code wrote: with other words everything is decided as before."""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.doctor.place import Place
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case
from primbench.spec.fleet import Member
from primbench.watching.report import line_of

from ..conftest import write_tree
from .conftest import MadeStudy
from .doctor.causes import REPORTS
from .doctor.conftest import place
from .watching.test_causes import CALM, CAUSES, JOB

__all__ = ["place"]

pytestmark = pytest.mark.timeout(1200)  # all commands over all that is recorded, twice

ROOT = Path(__file__).parents[2]
TREES = sorted(path.stem for path in (ROOT / "tests/trees").glob("*.json"))
STUDIES = sorted((ROOT / "suites/reference/studies").glob("*.xz"))
CASES: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("launch", {}, "cupy", "cuda:0"),
    ("gemm", {"m": 64, "n": 64, "k": 64}, "numpy", "cpu"),
    ("startup", {}, "python", "cpu"),
    ("files", {"bytes": 4096}, "python", "cpu"),
)
NAMES = {"check", "severity", "verdict", "outcome", "decided_by", "metric", "kind", "cause", "rule", "effect", "about"}
NAMES |= {"fails_more", "layer", "distorts", "parts", "status", "node", "nodes", "field", "baseline", "arm", "is_known"}


def taking(time_s: float) -> Measurement:
    found = Samples(samples_s=[time_s] * 7, calls_per_sample=1, taken_by="host clock", stopped="noise")
    return Measurement(batch_s=found, wall_s=found)


def written(path: Path, results: Results) -> str:
    lines: list[Line] = [results.header, *results.workers, *results.records]
    path.write_bytes(b"".join(map(encode, lines)))
    return f"FOLDER/{path.name}"


def exported(*formats: str) -> list[str]:
    """What has a command write these, beside what it prints: compared once for all of them."""
    return [word for name in formats for word in (f"--{name}", f"FOLDER/out/{name}")]


def of_reports(place: Callable[[Mapping[str, Any]], Place], made_study: MadeStudy, folder: Path) -> Iterator[list[str]]:
    """Each place that a public report tells of: by itself, and beside a healthy one in a study of slower cases."""
    healthy = place({})
    cases = [
        Case(primitive=name, parameters=build(name, fields).parameters(), backend=backend, device=device)
        for name, fields, backend, device in CASES
    ]
    seen = {repr(report.seen): report.seen for report in REPORTS}
    for number, changes in enumerate(seen.values()):
        other = place(changes)
        (folder / f"places/report-{number}.json").write_bytes(msgspec.json.encode({"place": other}))
        made = made_study(
            ["host", "podman:cpus=2"],
            cases,
            lambda arm, case, pair: taking(1e-3 * (1 + (arm != "host") / 2 + pair / 1000)),
            pairs=3,
            environments={"host": healthy.environment, "podman:cpus=2": other.environment},
        )
        file = written(folder / f"report-{number}.jsonl", made)
        yield ["compare", file, *exported("json", "junit")]


def of_fleet(place: Callable[[Mapping[str, Any]], Place], made_study: MadeStudy, folder: Path) -> Iterator[list[str]]:
    """Nodes of which each has something else, or the same more so, and some are slower."""
    (folder / "fleet").mkdir()
    case = Case(primitive="gemm", parameters=build("gemm", CASES[1][1]).parameters(), backend="numpy", device="cpu")
    others = [{}, {}, {}, {}, {"limits.cpu_quota": 0.5}, {"confinement.open_file_s": 3e-5}, REPORTS[0].seen]
    for number, changes in enumerate(others):
        time_s, there = 1e-3 * (1 + number / 1e4) * (2 if changes else 1), place(changes).environment
        made = made_study(["host"], [case], lambda arm, case, pair, time_s=time_s: taking(time_s), 1, {"host": there})
        member = Member(node=f"n{number}", rank=number, of=len(others) + 1)
        header = replace(made.header, study=None, member=member)
        records = [replace(each, case=replace(each.case, arm="")) for each in made.records]
        written(folder / f"fleet/n{number}.jsonl", replace(made, header=header, records=records))
    yield from (
        ["fleet", "FOLDER/fleet", *words] for words in ([], ["--json", "-"], ["--report", "-"], ["--junit", "-"])
    )


def of_studies(folder: Path) -> Iterator[list[str]]:
    for path in STUDIES:
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
        file = f"FOLDER/{path.stem}"
        exports = exported("json", "csv", "markdown", "junit", "github")
        yield ["compare", file, "--fail-on", "different", *exports]
        yield ["compare", file, "--fail-above", "1%"]
        yield ["report", file, "-o", "-"]
        yield ["show", file]


def of_jobs(folder: Path) -> Iterator[list[str]]:
    for cause, (changes, *_) in CAUSES.items():
        lines = [line_of("job", JOB), line_of("sample", replace(CALM, **changes))]
        (folder / f"job-{cause}.jsonl").write_text("".join(lines))
        yield ["show", f"FOLDER/job-{cause}.jsonl"]


def run(folder: Path, words: str) -> dict[str, list[Any]]:
    command = [sys.executable, "-P", str(Path(__file__).with_name("rewording.py")), str(folder), words]
    subprocess.run(command, check=True, env={**os.environ, "PRIMBENCH_CONFIG": os.devnull})
    found: dict[str, list[Any]] = json.loads(folder.with_name(f"{folder.name}-{words}.json").read_text())
    return found


def shape(text: str) -> str:
    """With one letter for all: words are as long as they were, and all else is as it was."""
    return re.sub("[A-Za-z]", "x", text)


def named(value: Any) -> Iterator[Any]:
    """All that names something in a document, in its order."""
    if isinstance(value, list):
        for each in value:
            yield from named(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in NAMES:
                yield key, each
            yield from named(each)


@pytest.fixture(scope="module")
def asked(
    tmp_path_factory: pytest.TempPathFactory,
    made_study: MadeStudy,
    place: Callable[[Mapping[str, Any]], Place],
) -> Path:
    """A folder of recorded places, studies and jobs, and what is asked of them."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "places").mkdir()
    (folder / "out").mkdir()
    for name in TREES:
        write_tree(folder / "trees" / name, name)
    words = [*of_reports(place, made_study, folder), *of_studies(folder), *of_jobs(folder)]
    words += of_fleet(place, made_study, folder)
    (folder / "asked.json").write_text(json.dumps(words))
    return folder


@pytest.fixture(scope="module")
def told(asked: Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    return run(asked, "usual"), run(asked, "other")


def are_alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return one[0] == other[0] and all(shape(a) == shape(b) for a, b in zip(one[1:], other[1:], strict=True))


def test_words_decide_nothing(told: tuple[dict[str, list[Any]], dict[str, list[Any]]]) -> None:
    """Statuses, numbers, order and layout of all that is told are the same; letters of words are all that is other."""
    usual, other = told
    assert list(usual) == list(other)
    assert {} == {name: (shown, other[name]) for name, shown in usual.items() if not are_alike(shown, other[name])}


def test_documents_name_the_same(told: tuple[dict[str, list[Any]], dict[str, list[Any]]]) -> None:
    usual, other = (
        [*named([json.loads(out) for name, (_, out, *_) in each.items() if name.endswith((": json", "--json -"))])]
        for each in told
    )
    assert len(usual) > 1000
    assert usual == other


def test_words_are_really_other(told: tuple[dict[str, list[Any]], dict[str, list[Any]]]) -> None:
    """But of machines' trees, of which names alone are compared, and where there is nothing to say."""
    usual, other = told
    assert sum(out != other[name][1] for name, (_, out, *_) in usual.items()) > 0.9 * len(usual)
