"""Of all that differs in an arm of a real study on this machine, what slows a case is named first in it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from primbench.compare.comparison import ArmComparison
from primbench.compare.pairs import compare
from primbench.results import file as results_file

SUITE = """\
files = [{ bytes = 4096, what = "small", files = 20 }]
gemm = [{ m = 256, n = 256, k = 256 }]
"""
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "5ms", "--max-time", "20ms", "--fail-on", "never")
PATIENT_CLOSE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * t.tv_sec + t.tv_nsec / 1e3;
}
int close(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "close");
  for (double end = now() + 50; now() < end;);
  return real(file);
}
"""
# What Python imports at its start: with MARK a process has itself traced before it does anything else.
TRACED = """
import os, sys
with open("/proc/self/status") as file:
    is_traced = "TracerPid:\\t0\\n" not in file
if "MARK" in os.environ and not is_traced:
    os.execvp("strace", ["strace", "-D", "-f", "-o", "/dev/null", *sys.orig_argv])
"""


@pytest.mark.quiet
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing: it compiles what is preloaded")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the older CPU is one of x86-64")
def test_a_preload_is_named_for_files_and_older_kernels_for_products(tmp_path: Path, ahead_of_others: None) -> None:
    library = tmp_path / "libpatient.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=PATIENT_CLOSE, text=True, check=True, capture_output=True, timeout=60)
    (tmp_path / "suite.toml").write_text(SUITE)
    more = f"preload={library},env.OPENBLAS_CORETYPE=Prescott,env.PYTHONDEVMODE=1"
    slow, _ = studied(tmp_path, "host:threads=1", f"host:threads=1,{more},name=slow")
    assert causes(slow, "files")[0].startswith("other libraries before all others: LD_PRELOAD is none in ")
    older, *others = causes(slow, "gemm")
    assert older.startswith("other code for the CPU: ")
    assert any("PYTHONDEVMODE" in each and "; that makes a ratio of " in each for each in others)


@pytest.mark.quiet
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing: it traces the workers of one arm")
def test_a_tracer_is_named_for_system_calls_and_no_variable_that_tells_the_arms_apart(
    tmp_path: Path, ahead_of_others: None
) -> None:
    (tmp_path / "sitecustomize.py").write_text(TRACED)
    (tmp_path / "suite.toml").write_text('launch = [{ call = ["getppid"] }]')
    start = f"host:env.PYTHONPATH={tmp_path}"
    slow, told = studied(tmp_path, f"{start},name=plain", f"{start},env.MARK=1,name=slow", pairs=5)
    tracer, mark, *_ = causes(slow, "launch")  # which may have been stopped, too
    costs = r"\S+ .?s in slow and \S+ .?s in plain"
    assert re.match(rf"system calls take {costs}: traced by process [0-9]+ \(strace\)", tracer)
    assert "the variable MARK is set in slow, which nothing is known to read" == mark
    assert "likely system calls, which take " in told.partition("\n")[0]


def studied(folder: Path, *arms: str, pairs: int = 3) -> tuple[ArmComparison, str]:
    """The second of two arms by a study of the folder's suite, and what the command prints."""
    words = [word for arm in arms for word in ("--arm", arm)]
    study = ["study", folder / "suite.toml", *words, "--pairs", pairs, *QUICK, "-o", folder / "study.jsonl"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", *map(str, study)], capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    (slow,) = compare(results_file.read(folder / "study.jsonl")).arms
    return slow, done.stdout


def causes(arm: ArmComparison, primitive: str) -> list[str]:
    """The case must be slower. Skips where the machine is too busy for any verdict."""
    (case,) = [each for each in arm.cases if each.case.primitive == primitive]
    if case.is_untellable:
        pytest.skip("something else takes the CPUs: nothing is told, and so nothing explained")
    assert "slower" == case.verdict, case
    assert case.explanation is not None
    return case.explanation.causes
