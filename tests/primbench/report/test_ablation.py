"""What `primbench ablate` prints and exports, of constructed records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.experiments.ablation import Waterfall, waterfall
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading
from primbench.registry import build
from primbench.report import ablation as report
from primbench.report.ablation import text
from primbench.results.file import Results
from primbench.spec.case import Case

from .exports import exports_of

MadeStudy = Callable[..., Results]
ARMS = [
    "host",
    "runc:cgroup=host,name=namespaces",
    "runc:cgroup=private,name=seccomp",
    "runc:cpus=1.5,name=CPU quota",
]
TIMES_S = {"host": 1e-3, "namespaces": 1e-3, "seccomp": 1.2e-3, "CPU quota": 1.8e-3}
to_csv, to_markdown, to_json = exports_of(report.document)
NOTE = "left out: overlay root: no overlay here"


def case(size: int) -> Case:
    parameters = build("gemm", {"m": size, "n": 64, "k": 64}).parameters()
    return Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")


def measured(arm: str, case: Case, pair: int) -> Measurement:
    median_s = TIMES_S[arm] * (1 + 1e-3 * (1, -1, -1, 1)[(pair + len(arm)) % 4])
    slowest = 2 if arm == "CPU quota" else 1.0001
    samples = Samples(
        samples_s=[median_s] * 6 + [median_s * slowest], calls_per_sample=9, taken_by="host clock", stopped="noise"
    )
    return Measurement(batch_s=samples)


def made(made_study: MadeStudy, *sizes: int, absent: str = "") -> Waterfall:
    results = made_study(
        ARMS,
        [case(size) for size in sizes],
        lambda arm, case, pair: "died" if arm == absent else measured(arm, case, pair),
    )
    assert results.header.study is not None
    study = replace(results.header.study, title="docker by runc", notes=[NOTE])
    results = replace(results, header=replace(results.header, study=study))
    return waterfall(results, compare(results))


def lines(found: Waterfall) -> list[str]:
    return [" ".join(line.split()) for line in text(found).splitlines()]


def test_a_row_an_ingredient_and_the_whole_at_the_end(made_study: MadeStudy) -> None:
    answer, _, title, columns, host, namespaces, seccomp, also, quota, mean, whole, and_quota, *rest = lines(
        made(made_study, 64)
    )
    assert answer.startswith("Slower in seccomp: gemm, by 20.0% [")
    assert "; slower in CPU quota: gemm, by 50.0% [" in answer
    assert answer.endswith("in gemm m=64 n=64 k=64 float32 on numpy cpu. Each is set against the one before it.")
    assert (
        "gemm m=64 n=64 k=64 float32 on numpy cpu docker by runc (8 pairs; ratio of times, with its 95 % interval)"
        == title
    )
    assert "ingredient metric time to the row before to the host verdict" == columns
    assert "host batch 1.00 ms" == host
    assert "namespaces batch 1.00 ms 1.000 [0.998, 1.002] 1.000 = equivalent, within 1.0%" == namespaces
    assert seccomp.startswith("seccomp batch 1.20 ms 1.200 [1.19")
    assert seccomp.endswith("] 1.200 > slower")
    assert also.startswith("batch mean 1.20 ms 1.200 [")
    assert also.endswith("] 1.200 takes longer"), "one verdict a case"
    assert quota.startswith("CPU quota batch 1.80 ms 1.500 [")
    assert quota.endswith("] 1.800 > slower")
    assert mean.startswith("batch mean 2.06 ms 1.714 [")  # the median does not see the slowest sample
    assert mean.endswith("] 2.057 takes longer")
    assert whole.startswith("all of it batch 1.20 ms 1.200 [")
    assert whole.endswith("] > slower")
    assert and_quota.startswith("all of it and CPU quota batch 1.80 ms 1.800 [")
    assert ["", NOTE] == rest


def test_several_cases_have_a_table_each_and_one_of_their_mean(made_study: MadeStudy) -> None:
    found = lines(made(made_study, 64, 128))
    titles = [line for line in found if line.endswith("interval)")]
    assert ["gemm m=64", "gemm m=128", "geometric mean"] == [" ".join(title.split()[:2]) for title in titles]
    rows = found[found.index(titles[-1]) + 1 :]
    assert "ingredient to the row before to the host" == rows[0]
    assert rows[2].startswith("seccomp 1.200 [")
    assert rows[2].endswith("] 1.200")
    assert rows[4].startswith("all of it 1.200 [")


def test_a_machine_too_busy_in_every_case_leaves_a_note_for_the_table_of_means(made_study: MadeStudy) -> None:
    waiting = HostReading(duration_s=1.0, cpu_time_s=0.4, voluntary_switches=0, involuntary_switches=9, waited_s=0.6)
    results = made_study(ARMS, [case(64), case(128)], lambda *which: replace(measured(*which), host=waiting))
    found = lines(waterfall(results, compare(results)))
    assert ["gemm m=64", "gemm m=128"] == [
        " ".join(line.split()[:2])
        for line in found
        if line.endswith("(8 pairs; ratio of times, with its 95 % interval)")
    ]
    assert 2 * len([*ARMS, "all of it"]) == len(
        [line for line in found if line.endswith("inconclusive: too busy to tell")]
    ), found
    assert "no geometric mean: no case could be told" in found


def test_an_ingredient_that_was_not_measured_has_a_row_with_the_reason(made_study: MadeStudy) -> None:
    found = lines(made(made_study, 64, absent="seccomp"))
    (row,) = [line for line in found if line.startswith("seccomp ")]
    assert "seccomp - - - - not compared: seccomp failed: died (8 of 8)" == row
    (quota,) = [line for line in found if line.startswith("CPU quota ")]
    assert " 1.800 [" in quota


def test_where_nothing_but_the_host_was_measured_nothing_is_said_of_a_whole(made_study: MadeStudy) -> None:
    results = made_study(
        ARMS, [case(64)], lambda arm, case, pair: measured(arm, case, pair) if arm == "host" else "died"
    )
    found = lines(waterfall(results, compare(results)))
    assert 3 == len([line for line in found if "not compared" in line])
    assert not any(line.startswith("all of it") for line in found)


def test_the_csv_says_which_arm_a_ratio_is_to(made_study: MadeStudy) -> None:
    rows = [row for row in csv.DictReader(io.StringIO(to_csv(made(made_study, 64)))) if row["metric"] == "batch_s"]
    found = [(row["baseline"], row["arm"], float(row["ratio"])) for row in rows]
    expected: list[Any] = [
        ("host", "namespaces", pytest.approx(1.0)),
        ("host", "seccomp", pytest.approx(1.2)),
        ("host", "CPU quota", pytest.approx(1.8)),
        ("namespaces", "seccomp", pytest.approx(1.2)),
        ("seccomp", "CPU quota", pytest.approx(1.5)),
    ]
    assert expected == found


def test_the_json_holds_steps_and_comparison(made_study: MadeStudy) -> None:
    found = json.loads(to_json(made(made_study, 64)))
    assert ["host", "namespaces", "seccomp"] == [step["before"] for step in found["steps"]]
    assert ["namespaces", "seccomp", "CPU quota"] == [arm["name"] for arm in found["comparison"]["arms"]]
    assert [NOTE] == found["notes"]


def test_markdown_has_the_tables_and_the_notes(made_study: MadeStudy) -> None:
    written = to_markdown(made(made_study, 64, 128))
    assert 3 == len([line for line in written.splitlines() if line.startswith("|") and " ingredient " in line])
    assert written.rstrip().endswith(NOTE)
