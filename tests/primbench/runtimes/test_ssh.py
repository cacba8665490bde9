"""What is sent to another machine, run by this one's Python; connections are in tests/containers/test_ssh.py."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from primbench.errors import InvalidRequest
from primbench.runtimes import arrival
from primbench.runtimes.afar import FIRST, arm_there, parcel, sent
from primbench.runtimes.invocation import OLDEST_PYTHON
from primbench.runtimes.order import Order
from primbench.runtimes.refusals import refusal
from primbench.runtimes.ssh import REACHED_BY, connect, launch
from primbench.runtimes.table import check
from primbench.spec.arm import Arm, arm_of, format_arm, parse_arm
from primbench.spec.variables import choosing_code

ROOT = Path(__file__).parents[3]


def arrived(sent: bytes, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", FIRST], input=sent, env={**os.environ, **variables}, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip


def order(code: str, arm: str = "host") -> Order:
    """To run that code of Python's, wherever Python is."""
    return Order(arm=parse_arm(arm), gpus=False, command=["/nowhere/python3", "-P", "-c", code], is_from_afar=True)


def test_what_follows_the_parcel_is_for_the_worker_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    asked = order("import os; print(input(), os.environ['MY_TOKEN'])", arm="host:env.MY_TOKEN")
    done = arrived(parcel(asked) + b"hello\n")
    assert (b"hello secret\n", 0) == (done.stdout, done.returncode), done.stderr


def test_a_death_by_a_signal_is_told_as_a_status() -> None:
    assert 128 + 9 == arrived(parcel(order("import os; os.kill(os.getpid(), 9)"))).returncode


OF_LIBRARIES = {
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.cpu.x86_ibt=off",
    "LD_LIBRARY_PATH": "/usr/lib",
    "OMP_NUM_THREADS": "3",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_L2_SIZE": "512",
}
TELLS = f"import os; print({{name: os.environ.get(name) for name in {[*OF_LIBRARIES]}}})"


@pytest.mark.parametrize("is_here", [False, True])
@pytest.mark.parametrize(("asks", "cpu"), [("", None), (":env.OPENBLAS_CORETYPE", "Haswell")])
def test_what_is_of_a_machine_goes_to_another_only_where_the_arm_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, asks: str, cpu: str | None, is_here: bool
) -> None:
    for name in OF_LIBRARIES:
        monkeypatch.delenv(name, raising=False)
    asked, boot = order(TELLS, f"host{asks}"), arrival.boot()
    if not is_here:  # what is sent finds itself on another machine than it was sent from
        monkeypatch.setattr(arrival, "boot", lambda: "1b4e28ba-2fa1-11d2-883f-0016d3cca427")
    found = ast.literal_eval(arrived(parcel(asked, OF_LIBRARIES)).stdout.decode())
    told = sent(asked.arm, boot, OF_LIBRARIES)
    everywhere = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2", "LD_LIBRARY_PATH": None, "OMP_NUM_THREADS": "3"}
    if is_here:
        assert OF_LIBRARIES | {"LD_LIBRARY_PATH": None} == found
        assert {"LD_LIBRARY_PATH": "path"} == told.left
    else:
        assert everywhere | {"OPENBLAS_CORETYPE": cpu, "OPENBLAS_L2_SIZE": None} == found
        left = {"GLIBC_TUNABLES": "instructions", "LD_LIBRARY_PATH": "path", "OPENBLAS_CORETYPE": "instructions"}
        left = left | {"OPENBLAS_L2_SIZE": "cache-sizes"}
        assert {name: left[name] for name in left if not asks.endswith(name)} == told.left
    assert sorted(name for name, value in found.items() if value is not None) == told.carried


def test_a_worker_that_lacks_an_instruction_there_names_what_was_set_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in choosing_code(os.environ):
        monkeypatch.delenv(name)
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    done = arrived(parcel(order(dies, "host:env.ATEN_CPU_CAPABILITY=avx512")))
    assert 128 + signal.SIGILL == done.returncode
    assert done.stderr.startswith(b"ATEN_CPU_CAPABILITY=avx512 has a library take code that this CPU may lack the")
    assert b"was built for" in arrived(parcel(order(dies))).stderr


def test_a_connection_that_ends_too_early_leaves_nothing(tmp_path: Path) -> None:
    done = arrived(parcel(order("pass"))[:-9], XDG_CACHE_HOME=str(tmp_path))
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


def test_there_the_arm_is_a_container_of_its_runtime() -> None:
    arm = parse_arm("ssh:far,runtime=podman,python=venv/bin/python,image=mine,cpus=2,numa-node=1,name=a")
    assert parse_arm("podman:image=mine,cpus=2,numa-node=1,name=a") == arm_there(arm, REACHED_BY)
    assert "ssh:far,runtime=podman,python=venv/bin/python,image=mine,cpus=2,numa-node=1,name=a" == format_arm(arm)
    table = {"runtime": ["ssh", "podman"], "host": "far", "python": "venv/bin/python", "image": "mine", "cpus": 2}
    assert arm == arm_of(table | {"numa-node": 1, "name": "a"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("runtime=podman,nice=5", "podman has no nice of its own; there is one in host, "),
        ("runtime=enroot", "enroot starts images of its own only: add image="),
        ("runtime=ssh", "of which machine?"),
        ("runtime=nosuch", "runtime 'nosuch': there are host, "),
        ("runtime=", "runtime '': the name of one, such as podman"),
        ("image=mine", "the host runs no image: name a runtime, such as podman"),
        ("network=private", "network=private: on other machines containers alone have one"),
    ],
)
def test_what_its_runtime_there_cannot_meet_is_refused_here(text: str, expected: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^arm .*{re.escape(expected)}"):
        check(parse_arm(f"ssh:far,{text}"))
    with pytest.raises(
        InvalidRequest, match="runtime=docker is of another machine; an engine's container is started otherwise by oci-"
    ):
        check(parse_arm("podman:runtime=docker"))


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
    assert found.startswith(expected)
    assert "here" not in found.replace("there", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "ssh:far,runtime=podman,image=mine",
            "'msgspec': python3 there lacks it, or image mine does: `primbench image",
        ),
        ("slurm:n1,image=mine", "image mine has no msgspec: build one"),
        ("k8s:mine", "image mine has no msgspec: build one"),
    ],
)
def test_what_an_image_elsewhere_lacks_is_told_as_that(words: str, expected: str) -> None:
    said = "worker died of exit status 1: ModuleNotFoundError: No module named 'msgspec'"
    assert expected in refusal(parse_arm(words), said)


def test_words_of_a_runtime_there_are_answered_as_its_own() -> None:
    said = "podman create: Error: mine: image not known"
    expected = refusal(parse_arm("podman:image=mine,name=far"), said)
    assert "`podman images` lists those" in expected
    assert expected == refusal(parse_arm("ssh:far,runtime=podman,image=mine,name=far"), said)
