"""`primbench why` end to end, between places on this machine itself that differ in little."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

import primbench
from primbench.environment.fingerprint import collect
from primbench.errors import InvalidRequest
from primbench.experiments.why.measuring import FIRST_PAIR, LOOK_PAIRS, Measuring
from primbench.experiments.why.recorded import elsewhere, worst
from primbench.kernels.gemm import Gemm
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results import file as results_file
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case
from primbench.spec.method import Method

Invoke = Callable[..., Result]
Refusal = Callable[..., str]
PLACES = ("host", "host:umask=0077,threads=1")
CASE = ("--primitive", "gemm -m 4 -n 4 -k 4", "--backend", "numpy", "--device", "cpu")
QUICK = ("--max-time", "10ms", "--min-time", "1ms")


@pytest.fixture(scope="module")
def asked(invoke: Invoke, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """An inquiry that had time for nothing but what is measured in any case."""
    path = tmp_path_factory.mktemp("why") / "why.jsonl"
    return path, invoke("why", *PLACES, *CASE, *QUICK, "--time-budget", "1ms", "-o", path)


def test_the_answer_comes_first_then_each_ingredient_then_what_to_type(asked: tuple[Path, Result]) -> None:
    _, result = asked
    assert result.exit_code in (0, 1), result.output
    answer, *rest = result.stdout.splitlines()
    assert answer.startswith("gemm m=4 n=4 k=4")
    assert ["umask=0077", "threads=1"] == [line.split()[1] for line in rest if line[:1] in "12" and line]
    assert f"again: primbench why {' '.join(PLACES)} --primitive" in result.stdout
    assert "is there a difference" in result.stderr


def test_its_file_has_every_pair_of_places_that_it_made(asked: tuple[Path, Result]) -> None:
    path, _ = asked
    found = results_file.read(path)
    assert found.header.study is not None
    assert (True, list(PLACES)) == (found.header.study.why, [arm.name for arm in found.header.study.arms])
    by_pair: dict[int, set[str]] = {}
    for record in found.records:
        by_pair.setdefault(record.case.process, set()).add(record.case.arm)
        assert record.case.method.check is (record.case.process < LOOK_PAIRS)
    assert {*range(LOOK_PAIRS), FIRST_PAIR} <= by_pair.keys()
    assert all({*PLACES} == by_pair[number] for number in range(LOOK_PAIRS))


def test_the_same_comes_of_the_file(asked: tuple[Path, Result], invoke: Invoke) -> None:
    path, first = asked
    before = path.read_bytes()
    again = invoke("why", "--resume", path, "--time-budget", "1ms", "--json", "-", "-q")
    assert first.stdout.startswith(json.loads(again.stdout)["headline"])
    assert (before, first.exit_code) == (path.read_bytes(), again.exit_code)
    assert invoke("compare", path, "--fail-on", "never").exit_code == 0
    page = invoke("report", path, "-o", "-")
    assert (page.exit_code, path.read_bytes()) == (0, before), page.output
    assert html.escape(json.loads(again.stdout)["headline"], quote=False) in page.stdout


def test_what_is_known_is_told_where_it_is_cut_off(
    asked: tuple[Path, Result], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C is raised in place of being typed, at the first round, of pairs that are made to differ."""
    scattered, lines = tmp_path / "why.jsonl", asked[0].read_text().splitlines()
    scattered.write_text("".join(f"{json.dumps(spread(json.loads(line)))}\n" for line in lines))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Measuring, "observe", interrupted)
    result = invoke("why", "--resume", scattered, "-q")
    assert result.exit_code == 130
    assert "cut off before all was asked" in result.stdout.splitlines()[0]


def spread(line: dict[str, Any]) -> dict[str, Any]:
    """A line of a file, its samples longer or shorter by the pair that they are of, where that is of the slow place."""
    case = line.get("case") or {}
    if case.get("arm") == PLACES[1]:
        for value in (line.get("measurement") or {}).values():
            if isinstance(value, dict) and "samples_s" in value:
                value["samples_s"] = [each * (0.6, 1.0, 1.7)[case.get("process", 0) % 3] for each in value["samples_s"]]
    return line


def test_a_study_is_not_gone_on_with_and_is_none_of_those(asked: tuple[Path, Result], refusal: Refusal) -> None:
    path, _ = asked
    assert "of `primbench why`: go on with `primbench why --resume`" in refusal("study", "--resume", path)
    reference = Path(__file__).parents[3] / "suites/reference/studies/h200-host-docker-podman-cupy.jsonl.xz"
    assert reference.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("host",), "two places are asked about"),
        ((*PLACES, *CASE, "--replay"), "--replay: of which file?"),
        (PLACES, "of which case?"),
        (("host", "host:name=again", *CASE), "no setting is different"),
        (("host", "host", *CASE), "no setting is different"),
        (("host", "ssh:there", *CASE), "nothing lies between the two"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[str, ...], words: str, refusal: Refusal) -> None:
    assert words in refusal("why", *arguments)


def test_another_place_is_not_what_a_file_was_begun_with(asked: tuple[Path, Result], refusal: Refusal) -> None:
    assert "--resume: a study goes on with" in refusal("why", "host", "host:threads=2", "--resume", asked[0])


def test_what_a_file_asks_about_by_other_numbers_is_not_gone_on_with(
    asked: tuple[Path, Result], refusal: Refusal, tmp_path: Path
) -> None:
    """As of another version, or where an inherited PATH is another one: made here by the header alone."""
    found = results_file.read(asked[0])
    assert found.header.study is not None
    assert found.header.study.ingredients == ["umask=0077", "threads=1"]
    study = replace(found.header.study, ingredients=["threads=1", "umask=0077"])
    lines: list[Line] = [replace(found.header, study=study), *found.workers, *found.records]
    path = tmp_path / "other.jsonl"
    path.write_bytes(b"".join(map(encode, lines)))
    for command in (("why", "--resume", path), ("report", path, "-o", "-")):
        assert "about threads=1; umask=0077, and this one asks here about umask=0077; threads=1" in refusal(*command)


CHOOSING, WORST = "host:env.PYTHONPATH=/tmp/x", "host:nofile=4096,umask=0077"
SAMPLES = {"host": 1e-3, "host:nice=1": 1.1e-3, WORST: 2e-3, CHOOSING: 3e-3}
PLAIN = ("host", "host:nice=1", WORST)
SMALL = {"m": 4, "n": 4, "k": 4}


@pytest.fixture
def studied(made_study: Callable[..., Results], tmp_path: Path) -> Callable[..., Path]:
    """``studied(*arms)``: a study's file, in which a product takes as long as SAMPLES says of the arm, and others 1 ms.

    Made, since nobody can have a place be slower by so much.
    """

    def of(*arms: str) -> Path:
        method = Method(unit="process", min_time_s=1e-3, max_time_s=1e-2)
        parameters = [build("gemm", SMALL | {"m": m}).parameters() for m in (4, 8)]
        cases = [
            Case(primitive="gemm", parameters=each, backend="numpy", device="cpu", method=method) for each in parameters
        ]

        def measured(arm: str, case: Case, pair: int) -> Measurement:
            each_s = (SAMPLES.get(arm, 1e-3) if case.parameters["m"] == 4 else 1e-3) * (1 + pair % 2 * 1e-3)
            samples = Samples(samples_s=[each_s] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
            return Measurement(batch_s=samples)

        found = made_study(arms, cases, measured)
        path = tmp_path / "study.jsonl"
        lines: list[Line] = [found.header, *found.workers, *found.records]
        path.write_bytes(b"".join(map(encode, lines)))
        return path

    return of


def test_of_a_study_the_worst_case_is_asked_about(studied: Callable[..., Path], invoke: Invoke, tmp_path: Path) -> None:
    path, kept = studied(*PLAIN), tmp_path / "why.jsonl"
    result = invoke("why", path, "--time-budget", "1ms", "-o", kept)
    assert result.exit_code in (0, 1), result.output
    assert f"{path}: gemm m=4 n=4 k=4 float32 on numpy cpu, in {WORST} beside host" in result.stderr
    study = results_file.read(kept).header.study
    assert study is not None
    assert ["host", WORST] == [arm.name for arm in study.arms]
    assert [4] == [case.parameters["m"] for case in study.cases]
    assert [0.01] == [case.method.max_time_s for case in study.cases]


def test_where_the_baseline_is_slow_the_other_place_is_the_fast_one(studied: Callable[..., Path]) -> None:
    path = studied(*reversed(PLAIN))
    found = worst(str(path), results_file.read(path))
    assert ("host", WORST) == (found.fast.name, found.slow.name)


def test_programs_that_a_study_names_are_run_where_the_command_line_names_them(
    studied: Callable[..., Path], invoke: Invoke
) -> None:
    result = invoke("why", studied("host", CHOOSING))
    assert result.exit_code == 2
    assert "name them again: primbench why host host:env.PYTHONPATH=/tmp/x --primitive" in result.stderr


def test_a_study_says_what_is_asked_about_by_itself(studied: Callable[..., Path], refusal: Refusal) -> None:
    path = studied(*PLAIN)
    assert "is slower for certain: measure more pairs" in refusal("why", studied("host", "host:nice=2"))
    assert "the case is measured as it was there" in refusal("why", path, "--device", "cpu")
    assert "of one place, and not of 2" in refusal("why", path, "host")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two cases that a process recorded under other limits, with a variable that is known, and another."""
    path = tmp_path_factory.mktemp("there") / "there.jsonl"
    command = [
        sys.executable,
        "-P",
        "-m",
        "primbench",
        "gemm",
        "-m",
        "4,8",
        "-n",
        "4",
        "-k",
        "4",
        "--threads",
        "1",
        "-q",
    ]
    script = 'umask 0077; ulimit -S -n 512; ulimit -S -c 0; exec nice -n 3 "$@"'
    environ = os.environ | {"PYTHONMALLOC": "debug", "SOMEBODYS_OWN": "1"}
    options = ["--backend", "numpy", "--device", "cpu", *QUICK, "--processes", "2", "-o", str(path)]
    subprocess.run(["sh", "-c", script, "sh", *command, *options], env=environ, check=True, capture_output=True)
    return path


def test_a_place_that_was_recorded_is_settings_here(there: Path) -> None:
    held, here = results_file.read(there), collect(gpus=False)
    found = elsewhere(str(there), held, here, ["gemm --m 8 --n 4 --k 4 --accumulate float32"])
    arm = found.arm
    assert ("0077", 512, 1) == (arm.umask, arm.open_files, arm.placement.threads)
    assert os.getpriority(os.PRIO_PROCESS, 0) + 3 == arm.niceness
    assert {"PYTHONMALLOC": "debug"} == arm.variables
    assert found.case.parameters["m"] == 8
    assert [2] == [len(times_s) for metric, times_s in found.times_s.items() if metric == "batch_s"]
    assert "SOMEBODYS_OWN" in " ".join(found.left_out)


def test_a_file_of_several_cases_is_asked_about_one_that_is_named(there: Path, refusal: Refusal) -> None:
    assert "2 of its cases are asked about: one of them: --primitive 'gemm --m 4" in refusal("why", "host", there)


def test_whether_what_was_recorded_is_so_here_comes_first(there: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Variables of a file are run where nobody can be asked, as in CI, if it is said to be one's own."""
    case = ("--primitive", "gemm --m 4 --n 4 --k 4 --accumulate float32", "--time-budget", "1ms")
    refused = invoke("why", "host", there, *case)
    assert refused.exit_code == 2
    assert "name them again: primbench why host host:" in refused.stderr
    result = invoke("why", "host", there, "--own", *case, "-o", tmp_path / "why.jsonl")
    assert result.exit_code in (0, 1), result.output
    assert result.stdout.split(":")[0] in ("Recorded", "Reproduced", "Not reproduced")
    assert "not tried here" in result.stderr.splitlines()[0]
    study = results_file.read(tmp_path / "why.jsonl").header.study
    assert study is not None
    assert ["there.jsonl"] == [*study.elsewhere]


def test_a_file_is_a_place_in_python_too(there: Path) -> None:
    with pytest.raises(InvalidRequest, match="say own=True where it is yours"):
        primbench.why("host", there, Gemm(8, 4, 4))
    with pytest.raises(InvalidRequest, match="measured as it was in the file"):
        primbench.why(there, "host", backend="numpy")
    with pytest.raises(InvalidRequest, match="of which problem"):
        primbench.why("host", "host:umask=0077")
    found = primbench.why(str(there), "host", Gemm(8, 4, 4), own=True, time_budget_s=1e-3)
    assert found.recorded is not None
    assert ("there.jsonl", "host", 8) == (*(arm.name for arm in found.asked), found.case.parameters["m"])


@pytest.mark.quiet
def test_what_makes_python_slow_is_named(invoke: Invoke, tmp_path: Path) -> None:
    """Among things that change nothing."""
    slow = "host:umask=0077,nofile=4096,env.A=1,env.PYTHONMALLOC=debug"
    case = ("--primitive", "files --bytes 4KiB", "--device", "cpu")
    result = invoke("why", "host", slow, *case, "-o", tmp_path / "why.jsonl", "--json", "-")
    found = json.loads(result.stdout)
    (proof,) = found["conclusion"]["proofs"]
    assert ["env.PYTHONMALLOC=debug"] == [found["ingredients"][number] for number in proof["differences"]]
    assert [["unset PYTHONMALLOC"]] == [each["fix"] for each in found["mends"]]
    assert result.exit_code == 1


def test_what_asked_this_of_containers_before_names_it(refusal: Refusal) -> None:
    assert "ablate is another command now: primbench why host docker" in refusal("ablate", "--runtime", "docker")
