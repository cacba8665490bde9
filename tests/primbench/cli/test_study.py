"""`primbench study` and `--versus` end to end, with arms on this machine itself."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import primbench.suites as suites
from primbench.compare.sides import identity
from primbench.experiments.sharing import LEAST_PAIRS, Sharing
from primbench.experiments.study import plan
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.spec.study import AGAIN, Study

Invoke = Callable[..., Result]
COMMAND = (sys.executable, "-P", "-m", "primbench")
QUICK = ("--max-time", "10ms", "--min-time", "1ms")
ARMS = ("--arm", "host", "--arm", "host:env.OMP_NUM_THREADS=1,name=one thread")
NOWHERE = ("--arm", "host:numa-node=4095,name=nowhere")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny products, without arms."""
    path = tmp_path_factory.mktemp("suites") / "tiny.toml"
    path.write_text("gemm = [{ m = 4, n = 4, k = [4, 8] }]\n")
    return path


def on_cpu(suite: Path, *arguments: Any) -> tuple[Any, ...]:
    return ("study", suite, "--device", "cpu", "--backend", "numpy", *QUICK, "--fail-on", "never", *arguments)


def planned(study: Study, pairs: Iterable[int]) -> list[Case]:
    """Case by case, as processes take turns."""
    blocks = plan(study.arms, study.cases, pairs, study.seed)
    return [case for block in blocks for group in zip(*block.by_arm, strict=True) for case in group]


def pairs_of(found: Results) -> list[int]:
    return sorted({each.case.process for each in found.records})


@pytest.fixture(scope="module")
def begun(invoke: Invoke, suite: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A study of two pairs and the baseline again."""
    path = tmp_path_factory.mktemp("studies") / "begun.jsonl"
    return path, invoke(*on_cpu(suite, *ARMS, "--self", "--pairs", 2, "--seed", 3, "-o", path))


def test_arms_are_run_as_planned_each_in_processes_of_its_own(begun: Any) -> None:
    path, done = begun
    assert (0, "") == (done.exit_code, done.stderr)
    found = results_file.read(path)
    study = found.header.study
    assert study is not None
    assert (["host", "one thread", f"host{AGAIN}"], 2, 3) == ([arm.name for arm in study.arms], study.pairs, study.seed)
    assert planned(study, range(2)) == [each.case for each in found.records]
    assert {"ok"} == {each.status for each in found.records}
    assert len({worker.pid for worker in found.workers}) == len(found.workers) == 6
    arms = {worker.worker: worker.arm for worker in found.workers}
    for each in found.records:
        assert each.worker is not None
        arm = arms[each.worker]
        assert arm is not None
        assert each.case.arm == arm.name


def test_variables_of_an_arm_are_in_its_workers_alone(begun: Any) -> None:
    found = results_file.read(begun[0])
    threads: dict[str, set[int | None]] = {}
    for worker in found.workers:
        assert worker.arm is not None
        threads.setdefault(worker.arm.name, set()).add(worker.placement.threads)
    assert {1} == threads["one thread"]
    assert threads["host"] == threads[f"host{AGAIN}"]
    assert len(os.sched_getaffinity(0)) == 1 or {1} != threads["host"]


def test_what_the_arms_differ_in_is_shown(begun: Any) -> None:
    shown = begun[1].stdout
    assert "one thread against host" in shown
    assert "(2 pairs; " in shown
    assert "host" in shown.splitlines()[2], "below the answer the baseline against itself comes first"
    assert shown.count("gemm m=4 n=4 k=8 ") >= 1


def test_a_study_goes_on_with_what_its_file_says(invoke: Invoke, begun: Any, tmp_path: Path) -> None:
    path = tmp_path / "resumed.jsonl"
    whole = begun[0].read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-1]))  # as if it had been stopped in its last pair
    done = invoke("study", "--resume", path, "--fail-on", "never")
    assert (0, "") == (done.exit_code, done.stderr)
    found = results_file.read(path)
    assert results_file.read(begun[0]).header == found.header
    assert [0, 1, 2] == pairs_of(found)
    study = found.header.study
    assert study is not None
    assert planned(study, [2]) == [each.case for each in found.records if each.case.process == 2]
    assert len({worker.worker for worker in found.workers}) == len(found.workers)


def test_an_ended_study_stays_as_it_is_and_more_pairs_of_it_share_their_time_by_the_first_ones(
    invoke: Invoke, begun: Any, tmp_path: Path
) -> None:
    path = tmp_path / "resumed.jsonl"
    path.write_bytes(begun[0].read_bytes())
    assert 0 == invoke("study", "--resume", path, "--fail-on", "never").exit_code
    assert begun[0].read_bytes() == path.read_bytes()
    more = LEAST_PAIRS + 1
    assert 0 == invoke("study", "--resume", path, "--pairs", more, "--fail-on", "never").exit_code
    records = results_file.read(path).records
    learnt = Sharing([each for each in records if each.case.process < LEAST_PAIRS])
    assert {(process, 3 * 2) for process in range(more)} == {*Counter(each.case.process for each in records).items()}
    for each in records:
        assert each.measurement is not None
        assert each.measurement.turns is not None
        expected = learnt(each.case) if each.case.process == LEAST_PAIRS else {}
        assert pytest.approx(expected) == each.measurement.turns.shares_s


def test_a_file_says_arms_pairs_and_seed(invoke: Invoke, tmp_path: Path) -> None:
    suite, path = tmp_path / "mine.toml", tmp_path / "results.jsonl"
    suite.write_text(
        """
title = "mine"
pairs = 1
seed = 11
arm = ["host", { runtime = "host", name = "narrow", threads = 1 }]
gemm = [{ m = 4, n = 4, k = 4 }]
"""
    )
    done = invoke(*on_cpu(suite, "-o", path))
    assert 0 == done.exit_code, done.stderr
    study = results_file.read(path).header.study
    assert study is not None
    assert ("mine", 1, 11) == (study.title, study.pairs, study.seed)
    assert [("host", None), ("narrow", 1)] == [(arm.name, arm.placement.threads) for arm in study.arms]


def test_an_arm_that_cannot_be_had_is_one_line_and_the_others_go_on(
    invoke: Invoke, suite: Path, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    done = invoke(*on_cpu(suite, *ARMS, *NOWHERE, "--pairs", 1, "-o", path))
    assert 0 == done.exit_code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("nowhere runs nothing with numpy on cpu: ")
    assert "4095" in line
    found = results_file.read(path)
    assert 3 * 2 == len(found.records)
    for each in found.records:
        assert ("skipped" if each.case.arm == "nowhere" else "ok") == each.status
        assert each.status == "ok" or (each.reason and "4095" in each.reason)
    assert "one thread against host" in done.stdout
    assert "4095" in done.stdout


def test_with_a_single_arm_nothing_is_measured_and_there_is_no_second_pair(
    invoke: Invoke, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    path = tmp_path / "results.jsonl"
    done = invoke(*on_cpu(suite, "--arm", "host", *NOWHERE, "--pairs", 4, "-o", path))
    found = results_file.read(path)
    assert ([0], {"skipped"}) == (pairs_of(found), {each.status for each in found.records})
    assert 1 == done.exit_code, "nothing was compared"
    assert "4095" in done.stdout
    assert "Nothing was measured: no other arm runs anything here" in done.stderr
    assert "torch" not in done.stderr, "to install it would bring no second arm"


def test_a_gate_does_not_pass_one_pair_and_exports_are_those_of_the_comparison(
    invoke: Invoke, suite: Path, tmp_path: Path
) -> None:
    asked = ("--arm", "host", "--arm", "host:name=twin", "--pairs", 1, "--fail-above", "5%")
    exports = ("--github", tmp_path / "log", "--csv", tmp_path / "found.csv", "--json", tmp_path / "found.json")
    done = invoke("study", suite, "--device", "cpu", "--backend", "numpy", *QUICK, *asked, *exports)
    assert (1, 1) == (done.exit_code, done.stderr.count("\n"))
    assert done.stdout.startswith("ONE PROCESS A SIDE CANNOT TELL in ")
    assert done.stderr.startswith("Failed by --fail-above 5.0%: ")
    told = (tmp_path / "log").read_text().splitlines()
    assert told
    assert all(line.startswith("::error title=twin against host%3A ") for line in told)
    (arm,) = json.loads((tmp_path / "found.json").read_text())["arms"]
    assert "twin" == arm["name"]
    rows = list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines()))
    assert {("host", "twin", "gemm")} == {(row["baseline"], row["arm"], row["primitive"]) for row in rows}


def test_where_no_arm_can_be_had_the_exit_code_is_1(invoke: Invoke, suite: Path) -> None:
    done = invoke(*on_cpu(suite, *NOWHERE, "--self"))
    assert 1 == done.exit_code
    assert ["nowhere", "nowhere", "Nothing"] == [line.split()[0].strip(":") for line in done.stderr.splitlines()]


def test_a_primitive_does_not_go_on_with_the_file_of_a_study(
    refusal: Callable[..., str], begun: Any, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(begun[0].read_bytes())
    for command in (("gemm", "-m", 4, "-n", 4, "-k", 4), ("run", "quick")):
        reason = refusal(*command, "--resume", path)
        assert f"of a study: go on with `primbench study --resume {path}`" in reason
    assert begun[0].read_bytes() == path.read_bytes()


def test_a_finished_study_goes_on_until_it_ends_by_itself(invoke: Invoke, begun: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(begun[0].read_bytes())
    assert 0 == invoke("study", "--resume", path, "--time-budget", "1us", "--fail-on", "never").exit_code
    found = results_file.read(path)
    assert [0, 1, 2] == pairs_of(found)
    assert found.header.study is not None
    assert 2 == found.header.study.pairs, "as it was begun with"


def test_a_study_that_was_cut_off_has_the_pairs_that_it_was_begun_with(
    invoke: Invoke, begun: Any, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    lines = begun[0].read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 1 + 3 + 3 * 2]))  # header, workers and records of the first pair
    assert [0] == pairs_of(results_file.read(path))
    assert 0 == invoke("study", "--resume", path, "--time-budget", "1h", "--fail-on", "never").exit_code
    assert [0, 1] == pairs_of(results_file.read(path))


def test_a_budget_ends_a_study_which_says_what_it_was_begun_with_and_arms_take_the_place_of_the_files(
    invoke: Invoke, tmp_path: Path
) -> None:
    suite, path = tmp_path / "mine.toml", tmp_path / "results.jsonl"
    suite.write_text('arm = ["podman", "docker"]\ngemm = [{ m = 4, n = 4, k = 4 }]\n')
    invoke(*on_cpu(suite, *ARMS, "--until", "settled", "--pairs", 6, "--time-budget", "1us", "-o", path))
    found = results_file.read(path)
    study = found.header.study
    assert study is not None
    assert (True, 6, ["host", "one thread"]) == (study.until_settled, study.pairs, [arm.name for arm in study.arms])
    assert [0] == pairs_of(found)


@pytest.mark.parametrize("pairing", ["in-turn", "one-after-the-other"])
def test_a_budget_binds_in_the_first_pair_and_what_it_leaves_out_is_said(
    pairing: str, invoke: Invoke, suite: Path, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    done = invoke(*on_cpu(suite, *ARMS, "--pairing", pairing, "--pairs", 3, "--time-budget", "1us", "-o", path))
    found = results_file.read(path)
    assert {"host", "one thread"} == {each.case.arm for each in found.records}
    assert (1, [0]) == (len({identity(each.case) for each in found.records}), pairs_of(found))
    before, *after = done.stderr.splitlines()
    assert before.startswith("2 cases in 2 arms: about ")
    assert before.endswith(" for 3; --time-budget 1.00 us ends it before")
    assert [
        "Not measured within --time-budget: 1 case (1 of gemm).",
        f"Go on with: primbench study --resume {path}",
    ] == after


def test_a_failed_case_is_exit_code_1(invoke: Invoke, tmp_path: Path) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text("gemm = [{ m = 4, n = 4, k = 4 }]\n")
    done = invoke(*on_cpu(suite, *ARMS, "--pairs", 1, "--timeout", "1us"))
    assert 1 == done.exit_code
    assert "no answer within 1e-06 s (--timeout)" in done.stdout


def test_a_signal_leaves_what_was_measured(suite: Path, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    command = [*COMMAND, *map(str, on_cpu(suite, *ARMS, "--pairs", 500, "-o", path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until_a_second_pair(path)
        running.send_signal(signal.SIGHUP)
        stdout, stderr = running.communicate(timeout=100)
    assert 128 + signal.SIGHUP == running.returncode
    assert " for 500\nStopped after " in stderr
    assert "one thread against host" in stdout
    assert 1 in pairs_of(results_file.read(path))


def test_a_terminal_that_is_closed_leaves_the_files(suite: Path, tmp_path: Path) -> None:
    path, sheet = tmp_path / "results.jsonl", tmp_path / "found.csv"
    command = [*COMMAND, *map(str, on_cpu(suite, *ARMS, "--pairs", 500, "-o", path, "--csv", sheet))]
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as running:
        os.close(theirs)
        until_a_second_pair(path)
        os.close(ours)
        running.send_signal(signal.SIGHUP)
        running.wait(timeout=100)
    assert 128 + signal.SIGHUP == running.returncode
    assert "one thread" in sheet.read_text()


def until_a_second_pair(path: Path) -> None:
    deadline = time.monotonic() + 180
    while not (path.exists() and b'"process":1,' in path.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


VERSUS = ("--versus", "host:env.OMP_NUM_THREADS=1,name=one thread", "--device", "cpu", "--backend", "numpy", *QUICK)


def test_versus_sets_the_host_against_another_arm(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    size = ("-m", 4, "-n", 4, "-k", 4)
    done = invoke("gemm", *size, *VERSUS, "--threads", 1, "--pairs", 1, "--fail-above", "50%", "-o", path)
    assert done.exit_code == 1, done.stderr
    assert "Failed by --fail-above 50.0%: gemm m=4 n=4 k=4" in done.stderr, "one process a side cannot decide"
    assert "one thread against host" in done.stdout
    found = results_file.read(path)
    assert {"host", "one thread"} == {each.case.arm for each in found.records}
    assert {1} == {each.case.placement.threads for each in found.records}, "a placement is that of both"


def test_versus_something_else_of_the_case_is_told_as_that(invoke: Invoke, tmp_path: Path) -> None:
    path, compared = tmp_path / "results.jsonl", tmp_path / "compared.json"
    size = ("-m", 4, "-n", 4, "-k", 4, "--device", "cpu", "--backend", "numpy", *QUICK)
    versus = ("--versus", "dtype=float64", "--versus", "m=512,n=512,k=512")
    done = invoke("gemm", *size, *versus, "--pairs", 3, "-o", path, "--json", compared)
    assert "a difference is that of what is measured: dtype=float64 in place of float32" in done.stdout, done.stderr
    found = json.loads(compared.read_text())
    assert [("dtype=float64", "case effect"), ("m=512,n=512,k=512", "case effect")] == [
        (arm["name"], arm["effect"]) for arm in found["arms"]
    ]
    assert "dtype=float32,m=4,n=4,k=4" == found["baseline"]
    (of_types,), (larger,) = (arm["cases"] for arm in found["arms"])
    assert "slower" == larger["verdict"]
    assert (None, []) == (larger["explanation"], of_types["deviations"]), "other cases give other outputs"
    seen = {each.case.arm: each.case.parameters["dtype"] for each in results_file.read(path).records}
    assert ("float64", "float32") == (seen["dtype=float64"], seen["m=512,n=512,k=512"])


def test_versus_another_function_is_told_by_its_name(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def f():\n    sum(range(100))\n\ndef g():\n    sum(range(10000))\n")
    how = ("--pairs", 3, "--device", "cpu", "--backend", "numpy", *QUICK)
    done = invoke("time", "mine.py::f", "--versus", "mine.py::g", *how)
    assert done.stdout.startswith("Slower in mine.py::g: time, by a factor of"), done.stderr
    assert (
        f"a difference is that of what is measured: function=mine.py::g in place of {tmp_path}/mine.py::f"
        in done.stdout
    )
    done = invoke("time", "mine.py::g", "--versus", "mine.py::f", *how)
    assert done.stdout.startswith("Faster in mine.py::f: time, by a factor of"), done.stderr


OF_ITS_LIBRARY = """\
import numpy as np
import planted

def f():
    return np.full(3, planted.VERSION)
"""


def environment(folder: Path, version: str) -> Path:
    """Its Python, which finds what is installed here, too. What is planted comes first."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "planted.py").write_text(f"VERSION = {version}\n")
    (packages / "here.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    (packages / "primbench").mkdir()
    (packages / "primbench/__init__.py").write_text("raise ImportError('of another version')\n")
    return folder / "bin/python"


def test_versus_the_python_of_another_environment_is_told_as_its_packages(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OF_ITS_LIBRARY)
    old, new = (environment(tmp_path / name, version) for name, version in (("old", "1.0"), ("new", "2.0")))
    (tmp_path / "same.py").write_text(OF_ITS_LIBRARY.replace("import planted", "class planted: VERSION = 2.0"))
    study = ("study", "pairs.toml", "--arm", f"host:python={new},name=new", "--arm", "host:python=old/bin/python")
    (tmp_path / "pairs.toml").write_text("time = [{ function = 'mine.py::f', like = 'same.py::f' }]\n")
    done = invoke(*study, "--device", "cpu", "--backend", "numpy", *QUICK, "--pairs", 2, "-o", "o.jsonl")
    found = results_file.read(tmp_path / "o.jsonl")
    status = {each.case.arm: each.status for each in found.records}
    assert {"new": "ok", "host:python=old/bin/python": "failed"} == status, done.output
    pythons = {each.arm.name: each.environment.software.python_executable for each in found.workers if each.arm}
    assert {"new": str(new), "host:python=old/bin/python": str(old)} == pythons
    assert "PYTHONPATH" not in done.stdout
    same = ("time", "same.py::f", "--versus", f"python={old}", "--device", "cpu", "--backend", "numpy", *QUICK)
    assert "a difference is a stack effect, none of the place alone" in invoke(*same, "--pairs", 2).stdout


def test_versus_plans_five_pairs_of_a_suite(invoke: Invoke, suite: Path, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert 1 == invoke("run", suite, "--versus", NOWHERE[1], *VERSUS[2:], "-o", path).exit_code
    study = results_file.read(path).header.study
    assert study is not None
    assert (5, ["host", "nowhere"]) == (study.pairs, [arm.name for arm in study.arms])


REFUSED = [
    (("study",), f"name a suite ({', '.join(suites.studies())}, a file), or primitives by --primitive"),
    (("study", "quick"), "a study compares two arms or more, there is none: --arm host --arm podman, or others"),
    (("study", "quick", "--arm", "host"), "there is host alone"),
    (("study", "quick", "--arm", "host", "--arm", "host"), "2 arms are called host"),
    (("study", "quick", "--arm", "nosuch"), "nosuch"),
    (("study", "quick", "--arm", "host:shm=1GiB", "--arm", "host"), "has no shm"),
    (("study", "--primitive", "gemn", *ARMS), "primitive 'gemn': did you mean gemm? there are "),
    (("study", *ARMS, "host:cpus=1"), "host:cpus=1: an arm is named by --arm, each by one of its own: --arm host:cpus"),
    (("study", "nosuch", *ARMS), "suite 'nosuch': there are small, medium, large, "),
    (("study", "quick", *ARMS, "--pairs", "0"), "Invalid value for '--pairs'"),
    (("study", "quick", *ARMS, "--time-budget", "0s"), "Invalid value for '--time-budget'"),
    (("study", "quick", *ARMS, "-o", "x", "--json", "x"), "asked to hold two things"),
    (("gemm", "--pairs", "3"), "--pairs: of two places: name the other one with --versus"),
    (("gemm", "--fail-above", "5%"), "--fail-above: of two places: name the other one with --versus"),
    (("gemm", *VERSUS, "--over-time"), "--over-time and --versus: it means nothing where places are compared"),
    (("gemm", *VERSUS, "--processes", "3"), "--processes and --versus: it means nothing where places are compared"),
    (("gemm", *VERSUS, "--roof"), "--roof and --versus"),
    (("gemm", *VERSUS, "--resume", "x"), "--resume and --versus: go on with `primbench study --resume`"),
    (("gemm", "--versus", "host"), "2 arms are called host"),
    (
        ("gemm", "--versus", "python=/nowhere/python"),
        "/nowhere/python is not installed: name the bin/python of an envi",
    ),
    (("gemm", "--versus", "python=/bin/echo"), "/bin/echo is no Python: name the bin/python of an environment"),
    (("gemm", "--versus", "podman:python=python3"), "podman has no python of its own; there is one in host, ssh"),
    (("gemm", "--versus", "dtyp=float16"), "did you mean dtype?"),
    (("gemm", "--backend", "numpy", "--kernel", "nosuch"), "--kernel nosuch: numpy has none of that name"),
    (("gemm", "--versus", "dtype=float32"), "--versus dtype=float32: that is what is measured here, too"),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_bad_request_says_what_is_wrong(arguments: tuple[str, ...], reason: str, refusal: Callable[..., str]) -> None:
    assert reason in refusal(*arguments)


def test_resuming_takes_no_other_arms_or_cases(begun: Any, refusal: Callable[..., str]) -> None:
    for asked in (
        ("--arm", "host"),
        ("quick",),
        ("--seed", 1),
        ("--max-time", "1s"),
        ("--label", "a=b"),
        ("--other-builds",),
        ("--pairing", "one-after-the-other"),
    ):
        reason = refusal("study", "--resume", begun[0], *asked)
        assert "and --resume: a study goes on with the arms and cases it was begun with" in reason


def test_a_study_of_another_machine_is_not_gone_on_with(
    begun: Any, refusal: Callable[..., str], tmp_path: Path
) -> None:
    path, first = tmp_path / "there.jsonl", json.loads(begun[0].read_bytes().partition(b"\n")[0])
    first["environment"]["machine"]["kernel"] = "2.6.0"
    path.write_bytes(json.dumps(first).encode() + b"\n" + begun[0].read_bytes().partition(b"\n")[2])
    reason = refusal("study", "--resume", path)
    assert (
        f"begun on another machine or kernel, or with other settings: machine.kernel was 2.6.0, is {os.uname()[2]}"
        in (reason)
    )


def test_only_a_study_can_be_gone_on_with(measured: Any, refusal: Callable[..., str]) -> None:
    assert "not of a study: go on with the command that began it" in refusal("study", "--resume", measured[0])


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # Python's own word for a module that cannot be imported


@pytest.mark.usefixtures("no_cupy")
def test_a_backend_of_one_image_alone_is_nothing_to_compare(suite: Path, refusal: Callable[..., str]) -> None:
    told = refusal("study", suite, "--backend", "cupy", "--arm", "host", "--arm", "podman:image=mine")
    assert told.startswith("--backend cupy: module 'cupy' is not installed: ")
    assert told.endswith(
        ": host is left out, and podman:image=mine alone is nothing to compare: install it here, or name another arm "
        "with an image"
    )
    versus = refusal("gemm", "-m", 4, "-n", 4, "-k", 4, "--backend", "cupy", "--versus", "podman:image=mine")
    assert told == versus


@pytest.mark.usefixtures("no_cupy")
def test_a_backend_of_no_arm_is_refused(suite: Path, refusal: Callable[..., str]) -> None:
    told = refusal("study", suite, "--backend", "cupy", "--arm", "host", "--arm", "podman")
    assert told.startswith("--backend cupy: module 'cupy' is not installed: pip install")
    assert "left out" not in told


@pytest.mark.usefixtures("no_cupy")
def test_a_backend_that_images_alone_may_have_is_asked_for_there(
    suite: Path, tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them has it, only it can tell: here there are no such images."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path, arms = tmp_path / "results.jsonl", ("podman:image=a", "podman:image=b,cpus=2")
    asked = ("--backend", "cupy", "--device", "cpu", "--pairs", 1, *(each for arm in arms for each in ("--arm", arm)))
    result = invoke("study", suite, *asked, "--arm", "host", "--self", *QUICK, "-o", path)
    assert 1 == result.exit_code
    first, *others, nothing, last = result.stderr.splitlines()
    assert nothing.startswith("Nothing was measured: ")
    assert last.startswith("Failed: ")
    assert first.endswith(": host is left out, and podman:image=a is what others are compared with")
    assert {f"{arm} runs nothing with cupy on cpu" for arm in (*arms, arms[0] + AGAIN)} == {
        line.split(": ")[0] for line in others
    }
    study = results_file.read(path).header.study
    assert study is not None
    assert [*arms, arms[0] + AGAIN] == [arm.name for arm in study.arms]
    assert {("cupy", "cpu")} == {(case.backend, case.device) for case in study.cases}


@pytest.mark.usefixtures("no_cupy")
@pytest.mark.parametrize(
    ("device", "options", "expected"),
    [
        ("cuda:0", (), (0.02, 0.1)),
        ("cpu", (), (0.1, 0.5)),
        ("cuda:0", ("--min-time", "1s"), (1.0, 1.0)),
        ("cuda:0", ("--max-time", "10ms"), (0.01, 0.01)),
    ],
)
def test_a_metric_is_sampled_for_as_long_as_pays_on_the_device_or_as_asked(
    suite: Path, tmp_path: Path, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch,
    device: str, options: tuple[str, ...], expected: tuple[float, float],
) -> None:  # fmt: skip
    monkeypatch.setenv("PATH", str(tmp_path))
    arms = ("--arm", "podman:image=a", "--self", "--pairs", 1)
    invoke("study", suite, *arms, "--backend", "cupy", "--device", device, *options, "-o", tmp_path / "results.jsonl")
    study = results_file.read(tmp_path / "results.jsonl").header.study
    assert study is not None
    assert {expected} == {(case.method.min_time_s, case.method.max_time_s) for case in study.cases}
