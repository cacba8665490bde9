"""`primbench compare`: files, exports and exit codes."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.compare.gate import FailOn
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading
from primbench.registry import build
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
Invoke = Callable[..., Result]
Refusal = Callable[..., str]

# How many times as long podman takes, how processes scatter, and the exit codes of --fail-on by its words.
EXITS = [
    (1.1, 0.001, {"slower": 1, "different": 1, "inconclusive": 1, "never": 0}),
    (0.9, 0.001, {"slower": 0, "different": 1, "inconclusive": 1, "never": 0}),
    (1.003, 0.0001, {"slower": 0, "different": 1, "inconclusive": 1, "never": 0}),
    (1.0, 0.05, {"slower": 1, "different": 1, "inconclusive": 1, "never": 0}),
    (1.0, 0.001, {"slower": 0, "different": 0, "inconclusive": 0, "never": 0}),
]


@pytest.fixture
def written(made_study: MadeStudy, tmp_path: Path) -> Callable[..., Path]:
    """``written(scale, scatter)``: the file of a study in which podman takes ``scale`` times as long as the host."""

    def write(scale: float = 1.1, scatter: float = 0.001, name: str = "study.jsonl", **how: object) -> Path:
        def measured(arm: str, case: Case, pair: int) -> Measurement:
            off = scatter * (1, -1, -1, 1)[pair % 4]
            median_s = 1e-3 * (scale * (1 + off) if arm == "podman" else 1)
            samples = Samples(samples_s=[median_s] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
            return Measurement(batch_s=samples)

        parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
        case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
        arms = how.pop("arms", ["host", "podman"])
        return save(made_study(arms, [case], measured, **how), tmp_path / name)

    return write


def save(results: Results, path: Path) -> Path:
    lines: list[Line] = [results.header, *results.workers, *results.records]
    path.write_bytes(b"".join(map(encode, lines)))
    return path


@pytest.mark.parametrize(("scale", "scatter", "codes"), EXITS)
def test_exit_codes(
    invoke: Invoke, written: Callable[..., Path], scale: float, scatter: float, codes: dict[str, int]
) -> None:
    path = written(scale, scatter)
    assert codes == {word: invoke("compare", path, "--fail-on", word).exit_code for word in codes}
    assert codes["slower"] == invoke("compare", path).exit_code


def test_nothing_that_was_compared_is_all_that_may_fail(invoke: Invoke, made_study: MadeStudy, tmp_path: Path) -> None:
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    path = save(made_study(["host", "podman"], [case], lambda *_: "died"), tmp_path / "study.jsonl")
    codes = {"slower": 1, "different": 1, "inconclusive": 1, "never": 0}
    assert codes == {word: invoke("compare", path, "--fail-on", word).exit_code for word in codes}


def exit_codes(invoke: Invoke, path: Path) -> dict[str, int]:
    return {word: invoke("compare", path, "--fail-on", word).exit_code for word in get_args(FailOn)}


def test_failures_of_one_side_and_a_machine_too_busy_are_no_success(
    invoke: Invoke, made_study: MadeStudy, tmp_path: Path
) -> None:
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    cases = [Case(primitive="gemm", parameters=parameters | {"m": m}, backend="numpy", device="cpu") for m in (64, 128)]
    waited = HostReading(
        duration_s=1.0, cpu_time_s=0.5, waited_s=0.6, voluntary_switches=1, involuntary_switches=1
    )  # fmt: skip

    def measured(busy: int, failing: int) -> Callable[[str, Case, int], Measurement | str]:
        def measure(arm: str, case: Case, pair: int) -> Measurement | str:
            if arm == "podman" and pair < failing:
                return "died"
            samples = Samples(samples_s=[1e-3] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
            host = waited if case.parameters["m"] in (64, 128)[:busy] else None
            return Measurement(batch_s=samples, host=host)

        return measure

    codes = {
        (busy, failing): exit_codes(
            invoke, save(made_study(["host", "podman"], cases, measured(busy, failing)), tmp_path / f"{busy}{failing}")
        )
        for busy, failing in ((0, 3), (1, 0), (2, 0))
    }
    always = {"slower": 1, "different": 1, "inconclusive": 1, "never": 0}
    assert {(0, 3): always, (1, 0): always | {"slower": 0, "different": 0}, (2, 0): always} == codes


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_one_process_a_side_does_not_pass(scale: float, invoke: Invoke, written: Callable[..., Path]) -> None:
    path = written(scale, pairs=1)
    assert {"slower": 1, "different": 1, "inconclusive": 1, "never": 0} == exit_codes(invoke, path)
    assert invoke("compare", path).stdout.startswith("ONE PROCESS A SIDE CANNOT TELL in 1 of 1 cases")


# The whole interval of 1.1 lies above 5 %, of 1.003 above 0.1 %; that of 1.05 holds 5 %. Of undecided cases
# alone none passes whose interval holds more than the limit.
ABOVE = [(1.1, 0.001, "5%", 1), (1.05, 0.001, "5%", 0), (1.1, 0.001, "15%", 0), (1.003, 0.0001, "0.1%", 1)]
ABOVE += [(0.9, 0.001, "5%", 0), (1.0, 0.05, "0%", 1), (1.0, 0.02, "20%", 0)]


@pytest.mark.parametrize(("scale", "scatter", "limit", "code"), ABOVE)
def test_only_what_is_certainly_above_a_limit_fails(
    invoke: Invoke, written: Callable[..., Path], scale: float, scatter: float, limit: str, code: int
) -> None:
    result = invoke("compare", written(scale, scatter), "--fail-above", limit)
    assert (code, code == 1) == (result.exit_code, "Failed by --fail-above " in result.stderr)


def test_a_mean_above_a_limit_fails_though_the_median_is_below(
    invoke: Invoke, made_study: MadeStudy, tmp_path: Path
) -> None:
    """As where a quota stops every tenth sample."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        jitter = 1 + 0.0001 * (pair % 3)
        times = [1e-3 * jitter] * 9 + [9e-3 * jitter if arm == "podman" else 1e-3]
        return Measurement(batch_s=Samples(samples_s=times, calls_per_sample=9, taken_by="host clock", stopped="noise"))

    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    case = Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")
    path = save(made_study(["host", "podman"], [case], measured), tmp_path / "study.jsonl")
    assert [1, 0] == [invoke("compare", path, "--fail-above", limit).exit_code for limit in ("50%", "100%")]


def test_what_fails_is_said_in_a_line(invoke: Invoke, written: Callable[..., Path]) -> None:
    assert "" == invoke("compare", written(1.0), "--json", "-").stderr
    name = "gemm m=64 n=64 k=64 float32 on numpy cpu, podman against host: "
    failed = invoke("compare", written(name="b.jsonl"), "--json", "-").stderr
    assert failed.startswith(f"Failed: {name}slower; 1.100 [1.0")
    assert 1 == failed.count("\n")
    different = invoke("compare", written(0.9, name="d.jsonl"), "--fail-on", "different").stderr
    assert different.startswith(f"Failed by --fail-on different: {name}faster; 0.900")
    single = invoke("compare", written(1.0, pairs=1, name="c.jsonl"), "--fail-above", "5%").stderr
    words = f"{name}inconclusive: a single process tells of no scatter; 1.001"
    assert f"Failed by --fail-above 5.0%: {words}\n" == single


def test_two_rules_to_fail_by_are_refused(refusal: Refusal, written: Callable[..., Path]) -> None:
    found = refusal("compare", written(), "--fail-above", "5%", "--fail-on", "never")
    assert "--fail-above and --fail-on never: one of them" == found
    assert "percentage '5'" in refusal("compare", written(name="b.jsonl"), "--fail-above", "5")


def test_the_table_is_printed_and_the_baseline_is_chosen(invoke: Invoke, written: Callable[..., Path]) -> None:
    assert "podman against host" in invoke("compare", written()).stdout
    other = invoke("compare", written(name="again.jsonl"), "--baseline", "podman")
    assert "host against podman" in other.stdout
    assert "faster" in other.stdout


def test_two_files(invoke: Invoke, written: Callable[..., Path]) -> None:
    one = written(1.0, 0.001, "a.jsonl", arms=["podman"])
    other = written(1.2, 0.001, "b.jsonl", arms=["podman"])
    result = invoke("compare", one, other)
    assert (1, True) == (result.exit_code, "b.jsonl against a.jsonl" in result.stdout)
    assert "inconclusive: not interleaved, and one run or session tells of no difference\n" in result.stdout
    assert "slower" not in result.stdout
    assert " effect" not in result.stdout
    alike = written(1.0, 0.001, "c.jsonl", arms=["podman"])
    assert 0 == invoke("compare", one, alike).exit_code


def test_two_folders_hold_several_runs_each(invoke: Invoke, written: Callable[..., Path], tmp_path: Path) -> None:
    for folder, scale in (("before", 1.0), ("after", 1.2), ("none", 1.0)):
        (tmp_path / folder).mkdir()
        for run in range(0 if folder == "none" else 3):
            written(scale * (1 + run / 1000), 0.001, f"{folder}/{run}.jsonl", arms=["podman"])
    before, after, none = (tmp_path / folder for folder in ("before", "after", "none"))
    result = invoke("compare", before, after)
    assert (1, True) == (result.exit_code, "runs a side: at least 3" in result.stdout)
    assert " slower" in result.stdout
    assert 2 == invoke("compare", before, none).exit_code


def test_runs_of_the_command_line_are_compared(invoke: Invoke, measured: tuple[Path, Result]) -> None:
    """One process each, the same file twice: every ratio is 1, and nothing is certain."""
    result = invoke("compare", measured[0], measured[0], "--fail-on", "inconclusive")
    assert 1 == result.exit_code
    assert 2 == result.stdout.count("inconclusive: a single process tells of no scatter")
    assert "skipped" in result.stdout
    assert "--processes 8" in result.stdout


def test_exports(invoke: Invoke, written: Callable[..., Path], tmp_path: Path) -> None:
    path = written()
    result = invoke("compare", path, "--csv", tmp_path / "a.csv", "--markdown", tmp_path / "a.md", "--json", "-")
    (case,) = json.loads(result.stdout)["arms"][0]["cases"]
    assert ("slower", "batch_s") == (case["verdict"], case["decided_by"])
    rows = [*csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text()))]
    assert {("podman", "slower", "batch_s")} == {(row["arm"], row["verdict"], row["decided_by"]) for row in rows}
    assert "| verdict" in (tmp_path / "a.md").read_text()


def test_an_export_over_a_results_file_is_refused(refusal: Refusal, written: Callable[..., Path]) -> None:
    one, other = written(name="a.jsonl"), written(name="b.jsonl")
    for path in (one, other):
        before = path.read_bytes()
        assert f"{path}: asked to hold two things, and holds one" == refusal("compare", one, other, "--json", path)
        assert before == path.read_bytes()


def test_what_cannot_be_compared_is_refused(
    refusal: Refusal, written: Callable[..., Path], made_study: MadeStudy, tmp_path: Path
) -> None:
    path = written()
    assert "--baseline nosuch: the arms are host, podman" == refusal("compare", path, "--baseline", "nosuch")
    assert "the first file is the baseline" in refusal("compare", path, path, "--baseline", "host")
    assert f"{path.name}: holds 2 arms, host, podman: compare it alone" == refusal("compare", path, path)
    assert "one arm alone" in refusal("compare", written(name="one.jsonl", arms=["host"]))
    empty = made_study(["host"], [], lambda *_: "", pairs=1)
    assert "holds no records" in refusal("compare", save(replace(empty, records=[]), tmp_path / "empty.jsonl"))
    assert "no such file, nor a baseline" in refusal("compare", tmp_path / "nosuch.jsonl")


def test_as_a_program(written: Callable[..., Path], tmp_path: Path) -> None:
    """In the installed package, which imports what this process has imported already."""
    arguments = [sys.executable, "-P", "-m", "primbench", "compare", str(written())]
    result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 1 == result.returncode
    assert result.stderr.startswith("Failed: gemm m=64 n=64 k=64 float32 on numpy cpu, podman against")
    assert "1.100" in result.stdout


RUN = ("gemm", "-m", 16, "-n", 16, "-k", 16, "--backend", "numpy", "--min-time", "1ms", "--max-time", "5ms", "-q")


@pytest.fixture
def baseline(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a baseline ``main`` of two runs, below the working one."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert 0 == invoke(*RUN, "--save-as", "main").exit_code
    return tmp_path / ".primbench/baselines/main"


def test_runs_are_kept_by_name_and_are_what_others_are_set_against(invoke: Invoke, baseline: Path) -> None:
    paths = sorted(baseline.iterdir())
    assert [".jsonl"] * 2 == [path.suffix for path in paths]
    shown = invoke(*RUN, "--against", "main", "--save-as", "branch")
    assert f"Saved as branch: {Path('.primbench/baselines/branch')}/" in shown.stderr
    assert "theirs: main, numpy" in shown.stdout
    assert "ratio" in shown.stdout
    one, other = (invoke("compare", *asked) for asked in (("branch", "--against", "main"), ("main", "branch")))
    assert one.stdout == other.stdout
    assert "branch against main" in one.stdout
    assert [".primbench"] == [path.name for path in baseline.parents[2].iterdir()], "nothing elsewhere"


@pytest.mark.parametrize(("scale", "code"), [(1.0, 0), (1.02, 0), (1.2, 1)])
def test_one_run_a_side_does_not_pass_what_it_cannot_tell(
    scale: float, code: int, invoke: Invoke, made_study: MadeStudy, tmp_path: Path
) -> None:
    """One case of two: the other one is alike."""
    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    cases = [Case(primitive="gemm", parameters=parameters | {"m": m}, backend="numpy", device="cpu") for m in (64, 128)]

    def of(factor: float) -> Callable[[str, Case, int], Measurement]:
        def measured(arm: str, case: Case, pair: int) -> Measurement:
            time_s = 1e-3 * (1 + 0.001 * (1, -1, -1, 1)[pair % 4]) * (factor if case.parameters["m"] == 64 else 1)
            samples = Samples(samples_s=[time_s] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
            return Measurement(batch_s=samples)

        return measured

    paths = [save(made_study(["host"], cases, of(each)), tmp_path / f"{each}.jsonl") for each in (0.9999, scale)]
    result = invoke("compare", paths[1], "--against", paths[0], "--fail-above", "5%")
    assert (code, code) == (result.exit_code, result.stderr.count("\n"))
    assert bool(code) == (
        ": inconclusive: not interleaved, and one run or session tells of no difference" in result.stderr
    )


def test_a_gate_on_runs_of_two_days_is_refused_and_says_what_to_do(
    invoke: Invoke, refusal: Refusal, written: Callable[..., Path], tmp_path: Path
) -> None:
    """No exit of a gate is right: the day may be what differs."""
    for name, day in (("before", "01"), ("after", "02")):
        (tmp_path / name).mkdir()
        for hour in (8, 9, 10):
            header, *rest = written(arms=["host"], name=f"{name}{hour}.jsonl").read_text().splitlines()
            line = json.dumps(json.loads(header) | {"started_utc": f"2026-11-{day}T{hour:02}:00:00+00:00"})
            (tmp_path / name / f"{hour}.jsonl").write_text("\n".join([line, *rest, ""]))
    places = (tmp_path / "before", tmp_path / "after")
    found = refusal("compare", *places, "--fail-above", "5%")
    assert found.startswith("--fail-above of one session a side: what differs may be the day.")
    assert "one now and the other next" in found or "one of each in turn" in found
    assert "what differs may be the day and not the place" in invoke("compare", *places).stdout


def test_a_baseline_that_cannot_be_is_refused(refusal: Refusal, invoke: Invoke, baseline: Path) -> None:
    assert "'a/b' is no name for a baseline: " in refusal(*RUN, "--save-as", "a/b")
    assert "'' is no name" in refusal(*RUN, "--save-as", "")
    assert "--save-as and --dry-run: " in refusal(*RUN, "--save-as", "a", "--dry-run")
    (baseline.parent / "file").touch()
    assert "baselines/file is no folder" in refusal(*RUN, "--save-as", "file")
    assert "--save-as and --versus" in refusal(*RUN, "--versus", "host", "--save-as", "a")
    words = "nosuch: no such file, nor a baseline of that name in .primbench/baselines: there is main"
    assert words == refusal("compare", "main", "--against", "nosuch")
    assert "saved by name: main" in refusal(*RUN, "--against", "nosuch")
    assert (
        "Not saved as none: nothing was measured"
        in invoke(
            "gemm", "-m", 8, "-n", 8, "-k", 8, "--backend", "numpy", "--dtype", "bfloat16", "--save-as", "none"
        ).stderr
    )
    assert "main: runs of one place alone, nothing to compare: name another" == refusal("compare", "main")
    assert "two are compared: several places by `primbench study`" in refusal("compare", "main", "main", "main")
    assert "name the baseline once" in refusal("compare", "main", "main", "--against", "main")
    assert ["file", "main"] == sorted(path.name for path in baseline.parent.iterdir())


def test_a_run_that_was_stopped_is_no_baseline(baseline: Path, tmp_path: Path) -> None:
    asked = [*map(str, RUN), "--processes", "1000", "--save-as", "stopped", "-o", "begun.jsonl"]
    with subprocess.Popen([sys.executable, "-P", "-m", "primbench", *asked], stderr=subprocess.DEVNULL) as running:
        while not (tmp_path / "begun.jsonl").exists() or len((tmp_path / "begun.jsonl").read_bytes().split(b"\n")) < 3:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
    assert 130 == running.returncode
    assert ["main"] == [path.name for path in baseline.parent.iterdir()]
