"""`primbench history` on files of made times: which change is told, and what is told to have changed with it."""

from __future__ import annotations

import csv
import io
import json
import lzma
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from primbench.registry import build

from ..report.pages import check
from .made import FIRST_DAY, GEMM, at_driver, on_cpu, write, write_days

if TYPE_CHECKING:
    from click.testing import Result

Invoke = Callable[..., "Result"]
ROOT = Path(__file__).parents[3]
OTHER = replace(GEMM, parameters=build("gemm", {"m": 32, "n": 64, "k": 64}).parameters())


@pytest.fixture
def told(invoke: Invoke) -> Callable[..., dict[str, Any]]:
    """``told(words)``: the JSON of a history, whose exit status is 0."""

    def tell(*words: object) -> dict[str, Any]:
        done = invoke("history", *words, "--json", "-")
        assert 0 == done.exit_code, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return tell


def changes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [change for series in found["series"] for change in series["changes"]]


def test_a_driver_that_alone_changed_is_named(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    write_days(tmp_path, environment=lambda day: at_driver("570.1" if day < 14 else "580.2"))
    found = told(tmp_path)
    (change,) = changes(found)
    assert 14 == change["point"]
    assert "2026-09-15T12:00:00Z" == change["since"]
    assert 1.03 < change["ratio"] < 1.07
    assert "alone" == change["tie"]
    (coincidence,) = change["coincidences"]
    assert ("driver", "570.1", "580.2", 0) == tuple(
        coincidence[each] for each in ("cause", "before", "after", "elsewhere")
    )
    assert ["devices.driver_version"] == coincidence["fields"]
    words = "slower since 2026-09-15: driver (driver_version) 570.1 -> 580.2 alone changed with it"
    assert found["headline"].endswith(words)
    assert found["headline"].startswith("gemm m=64 n=64 k=64")


def test_a_commit_and_a_driver_that_changed_together_cannot_be_told(
    told: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write_days(tmp_path, environment=lambda day: at_driver("570.1" if day < 14 else "580.2"),
               labels=lambda day: {"commit": "aaa" if day < 14 else "bbb"})  # fmt: skip
    found = told(tmp_path)
    (change,) = changes(found)
    assert "together" == change["tie"]
    assert ["driver", "labels.commit"] == [each["cause"] for each in change["coincidences"]]
    assert {"commit": "bbb"} == change["labels"]
    assert found["headline"].endswith("changed together: cannot tell which")
    assert "(commit bbb)" in found["headline"]


def test_what_changed_elsewhere_without_effect_counts_against_it(
    told: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    write_days(tmp_path, environment=lambda day: at_driver("570.1" if day < 14 else "580.2"),
               labels=lambda day: {"commit": f"c{day}"})  # fmt: skip
    (change,) = changes(told(tmp_path))
    assert "likely" == change["tie"]
    assert [("driver", 0), ("labels.commit", 16)] == [
        (each["cause"], each["elsewhere"]) for each in change["coincidences"]
    ]


def test_a_commit_that_alone_changed_is_named_though_others_had_no_effect(
    told: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    found = told(write_days(tmp_path, labels=lambda day: {"commit": f"c{day}"}))
    (change,) = changes(found)
    assert "alone" == change["tie"]
    assert "commit c13 -> c14 alone changed with it" in found["headline"]


def test_a_driver_without_effect_elsewhere_is_doubtful(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    write_days(tmp_path, environment=lambda day: at_driver(f"570.{(day >= 6) + (day >= 14)}"))
    (change,) = changes(told(tmp_path))
    assert "doubtful" == change["tie"]
    assert [1] == [each["elsewhere"] for each in change["coincidences"]]


def test_where_nothing_is_known_to_have_changed_that_is_said(
    told: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    found = told(write_days(tmp_path))
    (change,) = changes(found)
    assert "nothing" == change["tie"]
    assert [] == change["coincidences"]
    assert found["headline"].endswith("nothing in the record changed with it")


def test_without_a_change_it_counts_series_and_points(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = told(write_days(tmp_path, step=1.0))
    assert "no change in 1 series of 24 points" == found["headline"]


def test_one_file_is_too_short(invoke: Invoke, tmp_path: Path) -> None:
    path = write(tmp_path / "one.jsonl", FIRST_DAY, 1e-3)
    done = invoke("history", path, "--fail-on-change")
    assert 0 == done.exit_code
    assert done.stdout.startswith("nothing can be told yet of 1 series of 1 point: all are too short\n")


def test_a_gap_of_months_is_told_by_both_its_ends(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = told(write_days(tmp_path, when=lambda day: FIRST_DAY + timedelta(days=day + 120 * (day >= 14))))
    (change,) = changes(found)
    assert ("2026-09-14T12:00:00Z", "2027-01-13T12:00:00Z") == (change["last_before"], change["since"])


def test_a_case_that_is_renamed_is_another_series(invoke: Invoke, tmp_path: Path) -> None:
    write_days(tmp_path, case=lambda day: GEMM if day < 14 else OTHER)
    done = invoke("history", tmp_path)
    assert done.stdout.startswith("no change in 2 series of 24 points")
    assert "1 series have no point in the last run of their machine" in done.stdout
    assert "1 series begin after the first run" in done.stdout


def test_two_kinds_of_machines_are_two_series(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """Though one is slower, and both were measured in turn."""
    write_days(tmp_path / "a", step=1, environment=lambda day: on_cpu("One"))
    write_days(tmp_path / "b", step=1, environment=lambda day: on_cpu("Other"), seed=8,
               when=lambda day: FIRST_DAY + timedelta(days=day, hours=1))  # fmt: skip
    found = told(tmp_path)
    assert ["One", "Other"] == [each["machine"] for each in found["series"]]
    assert "no change in 2 series of 48 points" == found["headline"]


def test_bad_and_half_files_are_told_and_the_rest_is_used(invoke: Invoke, tmp_path: Path) -> None:
    write_days(tmp_path)
    half = tmp_path / "005.jsonl"
    half.write_bytes(half.read_bytes()[:-40])
    (tmp_path / "torn.jsonl").write_text("{")
    (tmp_path / "torn.json").write_text('{"benchmarks": [')
    (tmp_path / "package.json").write_text('{"name": "of no matter"}')
    done = invoke("history", tmp_path)
    assert 0 == done.exit_code
    assert "slower since 2026-09-15" in done.stdout
    assert "005.jsonl: 3: cut off in the middle of the line" in " ".join(done.stdout.split())
    assert "torn.jsonl: 1: cut off" in done.stdout
    assert "torn.json: not a whole JSON document" in done.stdout
    assert "package.json" not in done.stdout
    named = invoke("history", tmp_path, tmp_path / "package.json")
    assert "package.json: no results of primbench" in named.stdout


def test_where_nothing_can_be_read_it_is_an_error(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "no such file or folder" in refusal("history", tmp_path / "none")
    assert "no times in any file there" in refusal("history", tmp_path)
    (tmp_path / "torn.jsonl").write_text("{")
    assert "torn.jsonl: 1: cut off in the middle of its first line" in refusal("history", tmp_path)


def test_a_day_bounds_what_is_told_and_what_fails(invoke: Invoke, refusal: Callable[..., str], tmp_path: Path) -> None:
    write_days(tmp_path)
    assert 1 == invoke("history", tmp_path, "--fail-on-change").exit_code
    assert 1 == invoke("history", tmp_path, "--fail-on-change", "--since", "2026-09-15").exit_code
    later = invoke("history", tmp_path, "--fail-on-change", "--since", "2026-09-16")
    assert 0 == later.exit_code
    assert later.stdout.startswith("no change since 2026-09-16 in 1 series of 24 points")
    assert "no day" in refusal("history", tmp_path, "--since", "yesterday")


def test_it_takes_baselines_by_name_and_all_of_them_by_none(
    told: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_days(Path(".primbench/baselines/main"))
    write_days(Path(".primbench/baselines/other"), case=lambda day: OTHER)
    assert 1 == len(told("main")["series"])
    assert 2 == len(told()["series"])


def test_formats_have_points_checks_and_trends(invoke: Invoke, tmp_path: Path) -> None:
    write_days(tmp_path / "runs", labels=lambda day: {"commit": f"c{day}"})
    rows = [*csv.DictReader(io.StringIO(invoke("history", tmp_path / "runs", "--csv", "-").stdout))]
    assert 24 == len(rows)
    assert "c3" == rows[3]["label_commit"]
    assert [14] == [number for number, row in enumerate(rows) if row["change_ratio"]]
    assert 'failures="1"' in invoke("history", tmp_path / "runs", "--junit", "-").stdout
    page = tmp_path / "page.html"
    assert 0 == invoke("history", tmp_path / "runs", "--report", page).exit_code
    text = page.read_text()
    check(text)
    assert 2 == text.count('<svg class="plot"')
    assert 24 == text.count("<circle"), "a mark a point"
    assert "2026-09-15" in text


def test_files_of_older_primbenches_are_read(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    for path in sorted((ROOT / "suites/reference").glob("*.jsonl*")):
        shutil.copy(path, tmp_path)
    found = told(tmp_path)
    assert {} == found["unreadable"]
    assert "nothing can be told yet of" in found["headline"]
    assert {"device_s", "stream_s"} <= {each["metric"] for each in found["series"]}


def test_a_study_has_a_series_an_arm(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    study = ROOT / "tests/primbench/fixtures/single-samples.jsonl.xz"
    (tmp_path / "study.jsonl").write_bytes(lzma.decompress(study.read_bytes()))
    names = [each["name"] for each in told(tmp_path)["series"]]
    assert len({name.rpartition(" in ")[2] for name in names}) > 1


def test_words_of_files_steer_no_terminal(invoke: Invoke, tmp_path: Path) -> None:
    write_days(tmp_path, labels=lambda day: {"co\x1b[2Jmmit": "\x1b]0;x\x07<b>"})
    done = invoke("history", tmp_path, "--report", tmp_path / "page.html")
    assert "slower since" in done.stdout
    assert "\x1b" not in done.stdout
    check((tmp_path / "page.html").read_text())


def test_a_clock_that_fell_with_it_is_told(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    write_days(tmp_path, step=1.2)
    for day in range(24):
        path = tmp_path / f"{day:03}.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        loop_s = 1e-6 if day < 14 else 1.2e-6
        lines[-1]["measurement"]["batch_s"]["loops_s"] = [[each, loop_s] for each in range(11)]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (change,) = changes(told(tmp_path))
    assert ["readings.cpu_loop_s"] == [each["cause"] for each in change["coincidences"]]
    assert "alone" == change["tie"]
