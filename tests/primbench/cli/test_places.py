"""Places as commands name them: files, folders of runs, baselines by name, and the short labels that stand for them."""

from __future__ import annotations

import csv
import io
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from primbench.cli.places import labels
from primbench.results.file import encode, read
from primbench.results.record import Line, Record

if TYPE_CHECKING:
    from click.testing import Result


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/a/b/c.jsonl"], ["c.jsonl"]),
        (["a/x.jsonl", "a/y.jsonl"], ["x.jsonl", "y.jsonl"]),
        (["/s/one/r.jsonl", "/s/other/r.jsonl", "z.jsonl"], ["one/r.jsonl", "other/r.jsonl", "z.jsonl"]),
        (["r.jsonl", "a/r.jsonl", "/a/r.jsonl"], ["r.jsonl", "a/r.jsonl", "/a/r.jsonl"]),
        (["/r.jsonl", "a/b/r.jsonl"], ["/r.jsonl", "b/r.jsonl"]),
        (["runs/a/", "runs/b"], ["a", "b"]),
        (["same.jsonl", "same.jsonl"], ["same.jsonl", "same.jsonl"]),
        (["main", "-"], ["main", "-"]),
    ],
)
def test_labels_are_the_shortest_ends_that_tell_paths_apart(paths: list[str], expected: list[str]) -> None:
    assert expected == labels(paths)


def test_a_folder_that_has_no_name_is_called_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [tmp_path.name, "other"] == labels([".", "other"])


def test_labels_of_any_paths_end_them_and_tell_them_apart() -> None:
    dice = random.Random(7)
    for _ in range(300):
        paths = {"/".join(dice.choices("ab", k=dice.randint(1, 4))) for _ in range(dice.randint(1, 6))}
        found = labels(sorted(paths))
        assert len(paths) == len(set(found))
        assert all(f"/{path}".endswith(f"/{label}") for path, label in zip(sorted(paths), found, strict=True))


@pytest.fixture
def baseline(measured: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a baseline "main" of two runs, in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".primbench/baselines/main"
    folder.mkdir(parents=True)
    for name in ("one.jsonl", "two.jsonl"):
        shutil.copy(measured[0], folder / name)
    return folder


@pytest.mark.parametrize("by_name", [True, False])
def test_all_runs_of_a_place_are_shown_in_one_table(
    by_name: bool, baseline: Path, measured: tuple[Path, Result], invoke: Callable[..., Result]
) -> None:
    place = "main" if by_name else baseline
    alone, shown = invoke("show", measured[0]), invoke("show", place)
    assert (0, 0) == (alone.exit_code, shown.exit_code)
    assert {"file"} == {*shown.stdout.splitlines()[1].split()} - {*alone.stdout.splitlines()[1].split()}
    assert str(baseline) not in shown.stdout
    rows = [*csv.DictReader(io.StringIO(invoke("show", place, "--csv", "-").stdout))]
    once = [*csv.DictReader(io.StringIO(invoke("show", measured[0], "--csv", "-").stdout))]
    assert once * 2 == [{name: value for name, value in row.items() if name in once[0]} for row in rows]
    assert ["one.jsonl"] * len(once) + ["two.jsonl"] * len(once) == [row["label_file"] for row in rows]


def test_a_page_is_of_all_runs_of_a_place_and_of_places_beside_it(
    baseline: Path, measured: tuple[Path, Result], invoke: Callable[..., Result]
) -> None:
    words = "--baseline host: main holds several runs: name one of its files"
    assert words in invoke("report", "main", "--baseline", "host", "-o", "-").stderr
    one = invoke("report", "main", "-o", "-").stdout
    assert ">main, 20" in one
    assert all(f"<td>{name}" in one or f">{name}<" in one for name in ("one.jsonl", "two.jsonl"))
    os.makedirs("far/away")
    shutil.copy(measured[0], "far/away/three.jsonl")
    beside = invoke("report", "main", "far/away/three.jsonl", baseline, "-o", "-")
    assert 0 == beside.exit_code
    assert ">2 against main: not all is told of three.jsonl, " in beside.stdout
    assert "far/away/three" not in beside.stdout.replace("three.jsonl -q", "")


def test_places_are_called_by_their_labels_alone(measured: tuple[Path, Result], invoke: Callable[..., Result]) -> None:
    folder = measured[0].parent / "of a long name" / "of another"
    for name in ("here", "there"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(measured[0], folder / name / "results.jsonl")
    done = invoke("compare", *(folder / name / "results.jsonl" for name in ("here", "there")))
    assert "there/results.jsonl against here/results.jsonl" in done.stdout
    assert "of another" not in done.stdout + done.stderr


def test_two_files_of_601_times_end_in_a_summary(tmp_path: Path, invoke: Callable[..., Result]) -> None:
    """The recorded training set, and the same with times that are up to a tenth longer."""
    reference = Path(__file__).parents[3] / "suites/reference/h200-deepbench-training-float16-cupy.jsonl.xz"
    found, dice = read(reference), random.Random(0)
    for name in ("one", "other"):
        path = tmp_path / "of a long name" / name / "results.jsonl"
        path.parent.mkdir(parents=True)
        longer = {"one": 0.0, "other": 0.1}[name]
        records = [slowed(each, 1 + longer * dice.random()) for each in found.records if not each.case.process]
        lines: list[Line] = [found.header, *found.workers, *records]
        path.write_bytes(b"".join(map(encode, lines)))
    files = [tmp_path / "of a long name" / name / "results.jsonl" for name in ("one", "other")]
    done, every = invoke("compare", *files), invoke("compare", *files, "--all")
    assert (1, 1) == (done.exit_code, every.exit_code)
    assert 40 > len(done.stdout.splitlines()) < 601 < len(every.stdout.splitlines())
    assert re.search(
        r"^ +all +636 +\d+ +\d+ +601 +1\.0\d\d  601 inconclusive, 35 not compared$", done.stdout, re.MULTILINE
    )
    for each in (done, every):
        assert 1 == each.stdout.count("a single process tells of no scatter")
        assert "of a long name" not in each.stdout + each.stderr


def slowed(record: Record, times: float) -> Record:
    """With all device times so many times as long."""
    timed = record.measurement
    if timed is None or timed.device_s is None:
        return record
    device_s = replace(timed.device_s, samples_s=[each * times for each in timed.device_s.samples_s])
    return replace(record, measurement=replace(timed, device_s=device_s))
