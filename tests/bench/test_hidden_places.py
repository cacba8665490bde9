"""Places with hidden causes: each can be asked about, and what is busy in it reads what it is said to read."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.hidden_places import KINDS, draw
from bench.hidden_programs import Busy, keep_busy
from bench.hidden_settings import JOINT, NATURAL
from primbench.experiments.why.ingredients import Mixtures
from primbench.runtimes.table import check, known
from primbench.spec.arm import parse_arm

SEEDS, SOME = range(3000, 3120), range(3000, 3024)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def test_every_cause_is_one_of_several_ingredients(tmp_path: Path) -> None:
    for seed in SOME:
        drawn = draw(seed, tmp_path)
        arms = [parse_arm(words, known()) for words in (drawn.fast, drawn.slow)]
        words = {each.words for each in Mixtures(*arms).ingredients}
        assert {*drawn.causes} <= words, seed
        assert len(words) >= 5 + len(drawn.causes), seed
        for arm in arms:
            check(arm)


def test_a_seed_is_a_place(tmp_path: Path) -> None:
    assert [draw(seed, tmp_path) for seed in SOME] == [draw(seed, tmp_path) for seed in SOME]


def test_all_kinds_and_causes_are_drawn(tmp_path: Path) -> None:
    drawn = [draw(seed, tmp_path) for seed in SEEDS]
    counts = Counter(each.kind for each in drawn)
    assert counts == {"single": 40, "null": 40, "pair": 20, "together": 5, "either": 5, "elsewhere": 5, "outside": 5}
    for each in drawn:
        assert Counter(KINDS)[each.kind] * 5 == counts[each.kind]
    hidden = {cause.replace(str(tmp_path), "FOLDER") for each in drawn for cause in each.causes}
    assert {each.setting for each in NATURAL} <= hidden
    assert {setting for joint in JOINT for setting in joint.settings} <= hidden


TOGETHER = {frozenset({"env.ZONE=on", "env.TIER=1"}): 0.5}


@needs_compiler
def test_a_library_is_busy_by_the_variables_that_are_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_busy(tmp_path / "site.so", "IN_GETPPID", Busy(call_s=1.0, turn_s=0.001), 0.1, TOGETHER)

    def turns(name: str) -> int:
        """Of a copy, since a library is loaded once."""
        copy = tmp_path / f"{name}.so"
        shutil.copy(tmp_path / "site.so", copy)
        return ctypes.c_long.in_dll(ctypes.CDLL(str(copy)), "turns_of_hidden").value

    monkeypatch.setenv("ZONE", "on")
    alone = turns("first")
    monkeypatch.setenv("TIER", "1")
    assert (alone, turns("both")) == (100, 600)


@needs_compiler
def test_a_program_in_front_does_as_the_other_does(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    keep_busy(tmp_path / "bin/true", "AT_START", Busy(call_s=1e-6, turn_s=1e-9), 0.1, TOGETHER)
    assert subprocess.run([tmp_path / "bin/true"], check=False).returncode == 0


@pytest.mark.parametrize(("zone", "least_s"), [("on", 0.6), ("off", 0.1)])
def test_start_code_waits_by_the_variables_that_are_set(tmp_path: Path, zone: str, least_s: float) -> None:
    keep_busy(tmp_path / "sitecustomize.py", "AT_START", Busy(call_s=1.0, turn_s=1.0), 0.1, TOGETHER)
    code = f"import time; a = time.perf_counter(); import sitecustomize; print(time.perf_counter() - a >= {least_s})"
    variables = {"PYTHONPATH": str(tmp_path), "ZONE": zone, "TIER": "1"}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=variables, check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"
