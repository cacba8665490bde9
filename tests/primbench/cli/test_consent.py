"""A study's file says what is run when it is gone on with: what is asked of who does so, and what the file keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

if TYPE_CHECKING:
    from click.testing import Result

Refusal = Callable[..., str]
TIMES = Measurement(batch_s=Samples(samples_s=[1e-3] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise"))
HARMLESS = ["host", "host:cpus=2,env.OMP_NUM_THREADS=1", "docker:seccomp=unconfined"]
CHOOSING = [
    "docker:image=mine",
    "host:env.PYTHONPATH=/tmp/x",
    "host:env.OMP_NUM_THREADS=/tmp/x.so",
    "host:env.MY_TOKEN",
    "podman:seccomp=/tmp/profile.json",
    "host:preload=/tmp/x.so",
    "ssh:far",
    "slurm:n2",
    "k8s:mine",
]


@pytest.fixture
def written(made_study: Callable[..., Results], tmp_path: Path) -> Callable[..., Path]:
    """``written(*arms)``: the file of a study of two pairs that is whole. kernels: that it was begun with."""

    def write(*arms: str, kernels: Mapping[str, str] | None = None) -> Path:
        case = Case(
            primitive="gemm",
            parameters=build("gemm", {"m": 64, "n": 64, "k": 64}).parameters(),
            backend="numpy",
            device="cpu",
        )
        results = made_study(arms, [case], lambda arm, case, pair: TIMES, pairs=2)
        lines: list[Line] = [replace(results.header, kernels=dict(kernels or {})), *results.workers, *results.records]
        path = tmp_path / "study.jsonl"
        path.write_bytes(b"".join(map(encode, lines)))
        return path

    return write


def test_arms_that_choose_nothing_are_gone_on_with(invoke: Callable[..., Result], written: Callable[..., Path]) -> None:
    done = invoke("study", "--resume", written(*HARMLESS), "--fail-on", "never")
    assert (0, "") == (done.exit_code, done.stderr), done.output


@pytest.mark.parametrize("arm", CHOOSING)
def test_arms_that_choose_programs_are_shown_and_named_again(
    monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Result], written: Callable[..., Path], arm: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    path = written("host", arm)
    refused = invoke("study", "--resume", path)
    assert (2, "") == (refused.exit_code, refused.stdout)
    assert [f"{path} has this run: {arm}"] == refused.stderr.splitlines()[:-1]
    assert f"name them again: primbench study --resume {path} --arm host --arm {arm}\n" in refused.stderr
    done = invoke("study", "--resume", path, "--arm", "host", "--arm", arm, "--fail-on", "never")
    assert 0 == done.exit_code, done.output


@pytest.mark.parametrize(
    "words", ["host:preload=/tmp/x.so", "ssh:far,config=/tmp/ssh", "docker:image=mine", "host:env.PYTHONPATH=/tmp/x"]
)
def test_what_an_arm_has_run_stands_in_the_pages_whatever_it_is_called(
    invoke: Callable[..., Result], written: Callable[..., Path], tmp_path: Path, words: str
) -> None:
    path = written("host", f"{words},name=fast", "host:cpus=2,name=small")
    told = f"fast has this run: {words},name=fast"
    for export in ("--markdown", "--report", "--json"):
        shown = invoke("compare", path, export, tmp_path / export)
        assert told in shown.stdout, shown.stderr
        assert told in (tmp_path / export).read_text().replace("\\", "")
    assert "small has this run" not in shown.stdout, "it has no other programs run"
    assert "has this run" not in invoke("compare", written("host", words)).stdout, "its name says it"


NEIGHBOUR = '"neighbour":{"words":"launch","primitive":"launch","parameters":{}}'


@pytest.mark.parametrize("added", ['"name":"host (again)"', f'"name":"host beside launch",{NEIGHBOUR}'])
def test_arms_that_look_like_those_that_are_added_to_the_first_are_asked_about(
    invoke: Callable[..., Result], written: Callable[..., Path], added: str
) -> None:
    path = written("host", "host:env.PYTHONPATH=/tmp/x,name=other")
    text = path.read_text()
    assert '"name":"other"' in text
    path.write_text(text.replace('"name":"other"', added))
    refused = invoke("study", "--resume", path)
    assert (2, "") == (refused.exit_code, refused.stdout)
    assert "can have any program run" in refused.stderr


def test_arms_that_were_added_to_the_first_are_not_named_again(
    invoke: Callable[..., Result], written: Callable[..., Path]
) -> None:
    path = written("host:env.PYTHONPATH=/tmp/x,name=mine", "host:env.PYTHONPATH=/tmp/x,name=mine (again)")
    named = ("--arm", "host:env.PYTHONPATH=/tmp/x,name=mine")
    done = invoke("study", "--resume", path, *named, "--fail-on", "never")
    assert 0 == done.exit_code, done.output


def test_files_of_kernels_that_it_was_begun_with_are_named_again(
    refusal: Refusal, written: Callable[..., Path]
) -> None:
    path = written("host", kernels={"/own kernels.py": "0" * 64})
    before = path.read_bytes()
    again = f"primbench --kernels '/own kernels.py' study --resume {path}"
    assert refusal("study", "--resume", path).endswith(f"where it is yours, name it again: {again}")
    assert before == path.read_bytes()


def test_ctrl_c_at_the_question_is_no_failure(written: Callable[..., Path]) -> None:
    ours, theirs = os.openpty()
    words: list[Any] = [sys.executable, "-P", "-m", "primbench", "study", "--resume", written("host", CHOOSING[0])]
    with subprocess.Popen(words, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs) as asking:
        os.close(theirs)
        said = b""
        while b"Run it?" not in said:
            said += os.read(ours, 1024)
        # Python may miss a signal that comes between its last look for one and the read, which then goes on waiting.
        while Path(f"/proc/{asking.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
        asking.send_signal(signal.SIGINT)
    os.close(ours)
    assert 130 == asking.returncode


def test_other_arms_than_the_files_are_refused(refusal: Refusal, written: Callable[..., Path]) -> None:
    path = written("host", CHOOSING[0])
    assert "--arm and --resume: a study goes on with the arms" in refusal("study", "--resume", path, "--arm", "host")


def test_a_variable_that_was_passed_on_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, refusal: Refusal, written: Callable[..., Path]
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    arms = ("--arm", "host", "--arm", "host:env.MY_TOKEN")
    reason = refusal("study", "--resume", written("host", "host:env.MY_TOKEN"), *arms)
    assert "MY_TOKEN is not set here, and no file keeps its value: set it in the environment" in reason


def test_a_secret_is_in_no_file_and_no_table(tmp_path: Path) -> None:
    path, suite = tmp_path / "study.jsonl", tmp_path / "tiny.toml"
    suite.write_text("gemm = [{ m = 4, n = 4, k = 4 }]\n")
    words: list[Any] = [
        sys.executable,
        "-P",
        "-m",
        "primbench",
        "study",
        suite,
        "--device",
        "cpu",
        "--backend",
        "numpy",
    ]
    words += ["--arm", "host", "--arm", "host:env.MY_TOKEN", "--pairs", "1", "--min-time", "1ms", "--max-time", "5ms"]
    words += ["--label", "api_key=hunter2", "--label", "from=https://me:hunter2@there/x", "-o", path]
    for label in ("https://there/x?access_token=hunter2", "Authorization: Bearer hunter2", "dsn=a;password=hunter2"):
        words += ["--label", f"of={label}"]
    environment = os.environ | {"MY_TOKEN": "hunter2", "NCCL_SOCKET_URL": "tcp://me:hunter2@there:1"}
    environment |= {"NCCL_NET_PLUGIN": "x?token=hunter2", "NCCL_TOPO_FILE": __file__ + "?token=hunter2"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "host:env.MY_TOKEN against host" in done.stdout, done.stderr
    assert "hunter2" not in done.stdout + done.stderr + path.read_text()
    assert "tcp://***@there:1" in path.read_text()
