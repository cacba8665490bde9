"""Comparisons and records as tests that pass or fail: JUnit's XML and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.report.document import Check, Document
from primbench.report.formats import known
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

Invoke = Callable[..., Result]
SCALES = {64: 1.1, 128: 1.0, 256: 1.0, 512: None}
"""How many times as long podman takes by size; of the third the processes scatter, the last one dies in both."""


@pytest.fixture
def study(made_study: Callable[..., Results], tmp_path: Path) -> Path:
    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        scale = SCALES[int(str(case.parameters["m"]))]
        if scale is None:
            return "died: 5 % left"
        scatter = 0.05 if case.parameters["m"] == 256 else 0.0005
        time_s = 1e-3 * (scale * (1 + scatter * (1, -1, -1, 1)[pair % 4]) if arm == "podman" else 1)
        times = Samples(samples_s=[time_s] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
        return Measurement(batch_s=times)

    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    cases = [replace(case, parameters=parameters | {"m": m}) for m in SCALES]
    results = made_study(["host", "podman"], cases, measured)
    path = tmp_path / "study.jsonl"
    lines: list[Line] = [results.header, *results.workers, *results.records]
    path.write_bytes(b"".join(map(encode, lines)))
    return path


def junit(text: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Suite -> test -> what became of it and its words. The counts are those of the tests."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for suite in ElementTree.fromstring(text):
        tests = {test.attrib["name"]: next(((r.tag, r.attrib["message"]) for r in test), ("", "")) for test in suite}
        counted = [[tag for tag, _ in tests.values()].count(tag) for tag in ("failure", "error", "skipped")]
        assert counted == [int(suite.attrib[name]) for name in ("failures", "errors", "skipped")]
        assert len(suite) == int(suite.attrib["tests"])
        assert {suite.attrib["name"]} == {test.attrib["classname"] for test in suite}
        found[suite.attrib["name"]] = tests
    return found


def test_a_comparison_as_junit_fails_where_the_command_does(invoke: Invoke, study: Path) -> None:
    found = junit(invoke("compare", study, "--junit", "-").stdout)
    ((group, tests),) = found.items()
    assert "podman against host" == group
    slower, alike, undecided, dead = tests.values()
    assert ("", "") == alike
    assert slower[0] == "failure"
    assert slower[1].startswith("slower; 1.100 [1.100, ")
    assert ("skipped", True) == (undecided[0], undecided[1].startswith("inconclusive: needs "))
    assert "skipped" == dead[0]
    assert dead[1].startswith("not compared; host failed: died: 5 % left")
    for options in (["--fail-above", "15%"], ["--fail-on", "never"]):
        result = invoke("compare", study, "--junit", "-", *options)
        assert 0 == result.exit_code
        assert "failure" not in result.stdout.replace('failures="0"', "")


def test_an_arm_that_was_not_compared_is_one_test(
    invoke: Invoke, made_study: Callable[..., Results], tmp_path: Path
) -> None:
    def measured(arm: str, case: Case, pair: int) -> Measurement | str:
        times = Samples(samples_s=[1e-3] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
        return "no such runtime" if arm == "runc" else Measurement(batch_s=times)

    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    cases = [replace(case, parameters=parameters | {"m": m}) for m in SCALES]
    results = made_study(["host", "podman", "runc"], cases, measured)
    lines: list[Line] = [results.header, *results.workers, *results.records]
    path = tmp_path / "study.jsonl"
    path.write_bytes(b"".join(map(encode, lines)))
    found = junit(invoke("compare", path, "--junit", "-").stdout)
    assert {("", "")} == set(found["podman against host"].values())
    words = "not compared; runc failed: no such runtime (8 of 8)"
    assert {"all cases": ("failure", words)} == found["runc against host"]


def test_a_comparison_as_annotations_of_github(invoke: Invoke, study: Path) -> None:
    error, *warnings = invoke("compare", study, "--github", "-").stdout.splitlines()
    assert error.startswith(
        "::error title=podman against host%3A gemm m=64 n=64 k=64 float32 on numpy cpu::slower; 1.100 [1.100, "
    )
    assert 2 == len(warnings)
    assert all(warning.startswith("::warning title=podman against host%3A gemm m=") for warning in warnings)
    assert "::not compared; host failed: died: 5 %25 left" in warnings[1]


def test_records_as_tests(invoke: Invoke, measured: tuple[Path, Result]) -> None:
    found = junit(invoke("show", measured[0], "--junit", "-").stdout)
    states = [state for tests in found.values() for state, _ in tests.values()]
    assert 1 == states.count("skipped")
    assert "::warning title=" in invoke("show", measured[0], "--github", "-").stdout


HOSTILE = '\x1b[2J\n::error::owned\r\x00\ud800\uffff<&"%,:'


@pytest.mark.parametrize("name", ["junit", "github"])
def test_words_of_a_file_end_no_line_and_no_tag(name: str) -> None:
    checks = [Check(group=HOSTILE, name=HOSTILE, state="failed", words=HOSTILE)]
    unused: Any = None
    text = str(known()[name].write(Document("", None, unused, unused, lambda: checks)))
    assert text.replace("\n", "").isprintable()
    assert not any(line.startswith("::error::") for line in text.splitlines())
    if name == "junit":
        ((tests),) = junit(text).values()
        assert [("failure", r'\x1b[2J\x0a::error::owned\x0d\x00\ud800\uffff<&"%,:')] == list(tests.values())
