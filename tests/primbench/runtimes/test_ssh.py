"""What is sent to another machine, run by this one's Python; connections are in tests/containers/test_ssh.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from primbench.runtimes import arrival
from primbench.runtimes.order import Order
from primbench.runtimes.refusals import refusal
from primbench.runtimes.ssh import FIRST, OLDEST_PYTHON, connect, launch, parcel
from primbench.spec.arm import Arm, parse_arm

ROOT = Path(__file__).parents[3]


def arrived(sent: bytes, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", FIRST], input=sent, env={**os.environ, **variables}, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip


def order(*command: str, arm: str = "host") -> Order:
    return Order(arm=parse_arm(arm), gpus=False, command=[*command], is_from_afar=True)


def test_what_follows_the_parcel_is_for_the_worker_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    asked = order("sh", "-c", 'cat; echo "$MY_TOKEN"', arm="host:env.MY_TOKEN")
    done = arrived(parcel(asked) + b"hello\n")
    assert (b"hello\nsecret\n", 0) == (done.stdout, done.returncode), done.stderr


def test_a_death_by_a_signal_is_told_as_a_status() -> None:
    assert 128 + 9 == arrived(parcel(order("sh", "-c", "kill -9 $$"))).returncode


def test_a_connection_that_ends_too_early_leaves_nothing(tmp_path: Path) -> None:
    done = arrived(parcel(order("true"))[:-9], XDG_CACHE_HOME=str(tmp_path))
    assert (1, b"the connection ended before all of primbench was here\n") == (done.returncode, done.stderr)
    assert [] == [*tmp_path.iterdir()]


def test_the_first_line_means_the_same_to_every_shell() -> None:
    assert not set("\n\\!'") & set(FIRST)


def test_a_python_that_is_too_old_says_so() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f">={'.'.join(map(str, OLDEST_PYTHON))}" == declared
    done = subprocess.run(
        [sys.executable, "-c", FIRST.replace("<(3,11)", "<(9,0)")], capture_output=True, text=True, check=False
    )
    assert 1 == done.returncode
    assert re.fullmatch(r"Python 3\.[0-9]+ is older than 3\.11\n", done.stderr)
    said = refusal(parse_arm("ssh:far"), f"worker died of exit status 1: {done.stderr}")
    assert said.endswith("is older than 3.11: that is python3 there: name a newer one by python=")


def test_a_worker_needs_no_more_than_is_sent() -> None:
    sent = arrival.code_in(str(ROOT / "primbench"))
    assert {"workers/worker.py", "kernels/gemm/numpy.py", "kernels/rnn/pointwise.cu", "suites/models"} <= {
        *sent,
        *(os.path.dirname(name) for name in sent),
    }
    assert max(map(len, sent.values())) < 100_000, "no results"


def test_options_of_ssh_stand_before_the_machine_and_the_command_after_it(tmp_path: Path) -> None:
    arm = parse_arm("ssh:me@far,config=/etc/mine,python=venv/bin/python,cpus=2")
    made = launch(arm, tmp_path, ["venv/bin/python", "-P", "-m", "primbench.workers.worker"], gpus=False)
    assert ["ssh", "-F", "/etc/mine", "-T"] == made.worker[:4]
    assert ["--", "me@far"] == made.worker[-3:-1] == connect(arm)[-2:]
    assert made.worker[-1].startswith("venv/bin/python -c 'import os,sys;")
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "worker died of exit status 1: ModuleNotFoundError: No module named 'msgspec'",
            "ModuleNotFoundError: No module named 'msgspec': python3 there lacks it: install what primbench needs",
        ),
        (
            "worker died of exit status 255: Timeout, server far not responding.",
            "Timeout, server far not responding: see whether `ssh far` works",
        ),
        (
            "worker spoke out of turn, or what starts with its Python printed 'Welcome!'",
            "worker spoke out of turn, or what starts with its Python printed 'Welcome!': a shell there",
        ),
        ("cpuset.cpus = 900: Invalid argument", "cpuset.cpus = 900: Invalid argument"),
    ],
)
def test_words_from_there_are_answered_without_a_look_around_here(said: str, expected: str) -> None:
    found = refusal(Arm(name="far", runtime="ssh", host="far"), said)
    assert found.startswith(f"arm far: {expected}")
    assert "here" not in found.replace("there", "")
