"""`primbench study --beside`: how words are read, and one study of two products on the same CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from msgspec.structs import replace

from primbench.cli.study import neighbour_in_words
from primbench.compare.pairs import compare
from primbench.results import file as results_file
from primbench.spec.arm import parse_arm
from primbench.spec.study import with_neighbour

from ...processes import words_of

if TYPE_CHECKING:
    from click.testing import Result

CPU = min(os.sched_getaffinity(0))
ARM = f"host:bind-cpus={CPU},threads=1,name=host"
WORDS = "gemm -m 128 -n 128 -k 128"
WITHIN_S = 60


def test_words_are_read_as_the_command_line_reads_them() -> None:
    found = neighbour_in_words("gemm -m 16 -n 64 -k 8")
    assert ("gemm", 16, 64) == (found.primitive, found.parameters["m"], found.parameters["n"])
    assert ("gemm", None, None) == (found.name, found.backend, found.device)
    named = neighbour_in_words("model 'mnist_cnn' --batch-size 8 --backend torch --device cuda:1")
    assert ("model mnist_cnn", "torch", "cuda:1", 8) == (
        named.name,
        named.backend,
        named.device,
        named.parameters["batch_size"],
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "a neighbour is a primitive and its options"),
        ("gem -m 4", "primitive 'gem': did you mean gemm? there are"),
        ("gemm 'x", "No closing quotation"),
        ("gemm -m 4", "give also n, k"),
        ("gemm -m 4:8:2 -n 4 -k 4", "these are 2 problems, and a neighbour does one"),
        (f"{WORDS} --max-time 1s", "No such option"),
        (f"{WORDS} --help", "No such option"),
        (f"{WORDS}; touch x", "touch"),
        (f"{WORDS} --backend nope", "--backend nope: one of"),
        (f"{WORDS} --device all", "--device all: cpu or cuda:N"),
        ("allreduce --bytes 1KiB --ranks 2", "ranks=2: a neighbour is one process"),
    ],
)
def test_other_words_are_refused_with_what_was_asked(words: str, reason: str, refusal: Callable[..., str]) -> None:
    error = refusal("study", "--primitive", "gemm", "--beside", words)
    assert reason in error
    assert words in error


def test_what_a_file_says_is_refused_with_its_name(tmp_path: Path, refusal: Callable[..., str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('beside = "gem"\ngemm = [{ m = 4, n = 4, k = 4 }]\n')
    assert f"{path}: beside: 'gem': primitive 'gem'" in refusal("study", path, "--device", "cpu")


def test_every_arm_comes_once_more() -> None:
    neighbour = neighbour_in_words(WORDS)
    arms = with_neighbour([parse_arm("host"), parse_arm("podman")], neighbour)
    assert ["host", "podman", "host beside gemm", "podman beside gemm"] == [arm.name for arm in arms]
    assert [None, None, neighbour, neighbour] == [arm.neighbour for arm in arms]
    assert arms[0] == replace(arms[2], name="host", neighbour=None)


@pytest.mark.quiet
def test_two_products_on_one_cpu_wait_for_it_and_the_neighbour_is_the_cause(
    invoke: Callable[..., Result], tmp_path: Path, ahead_of_others: None
) -> None:
    sizes, path = tmp_path / "sizes.toml", tmp_path / "study.jsonl"
    sizes.write_text(f'beside = "{WORDS}"\ngemm = [{{ m = 256, n = 256, k = 256 }}]\n')
    quick = ("--max-time", "100ms", "--min-time", "60ms", "--no-check", "--fail-on", "never")
    asked = ("--arm", ARM, "--device", "cpu", "--backend", "numpy", "-o", path)
    begun = invoke("study", sizes, *asked, *quick, "--pairs", 1)
    assert "" == begun.stderr
    done = invoke("study", "--resume", path, "--pairs", 2, "--fail-on", "never")
    assert (0, "") == (done.exit_code, done.stderr)
    found = results_file.read(path)
    measured = [(each.case.arm, each.measurement) for each in found.records if each.measurement]
    assert ["host", "host", "host beside gemm", "host beside gemm"] == sorted(arm for arm, _ in measured)
    for arm, measurement in measured:
        assert "the neighbour of an arm would slow the others, too" == measurement.missing["turns"]
        assert (arm == "host beside gemm") == (measurement.neighbour is not None)
    ((case,),) = (arm.cases for arm in compare(found).arms)
    assert case.explanation is not None
    assert case.explanation.causes[0].startswith(f"the neighbour {WORDS}: beside it kernels ")
    assert "a thread of it waited for a CPU for" in " ".join(case.explanation.evidence)
    assert [] == case.explanation.noise
    assert f"host beside gemm: {WORDS} called " in done.stdout
    assert "a difference is a neighbour effect" in done.stdout


def test_a_neighbour_outlives_no_main_process_that_is_killed(tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.toml"
    sizes.write_text("launch = [{ call = 'getppid' }]\n")
    command = [sys.executable, "-P", "-m", "primbench", "study", str(sizes), "--beside", WORDS, "--pairs", "100"]
    on_cpu = ["--backend", "numpy", "--device", "cpu", "--max-time", "50ms", "--min-time", "50ms"]
    front = subprocess.Popen([*command, *on_cpu], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: list[psutil.Process] = []

    def has_a_neighbour() -> bool:
        found[:] = psutil.Process(front.pid).children(recursive=True)
        return 2 == sum("primbench.workers.worker" in words_of(each) for each in found)

    try:
        wait_until(has_a_neighbour)
    finally:
        front.kill()
        front.wait()
    wait_until(lambda: not any(each.is_running() for each in found))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
