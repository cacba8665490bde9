"""Places with hidden causes: each is one that can be asked about, and its library reads what it is said to read."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from bench.hidden_places import KINDS, Busy, build, draw
from primbench.experiments.why.ingredients import Mixtures
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm

SEEDS = range(2 * len(KINDS))


def test_every_cause_is_one_of_several_ingredients(tmp_path: Path) -> None:
    for seed in SEEDS:
        drawn = draw(seed, tmp_path)
        arms = [parse_arm(words, known()) for words in (drawn.fast, drawn.slow)]
        words = {each.words for each in Mixtures(*arms).ingredients}
        assert {*drawn.causes} <= words, seed
        assert len(words) >= 5 + len(drawn.causes)


def test_a_seed_is_a_place(tmp_path: Path) -> None:
    assert [draw(seed, tmp_path) for seed in SEEDS] == [draw(seed, tmp_path) for seed in SEEDS]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_library_is_busy_by_the_variables_that_are_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = next(found for seed in SEEDS if (found := draw(seed, tmp_path)).kind == "together")
    excess = drawn.least - 1
    build(drawn, tmp_path, Busy(call_s=1.0, turn_s=0.001))

    def turns(name: str) -> int:
        """Of a copy, since a library is loaded once."""
        copy = tmp_path / f"{name}.so"
        shutil.copy(tmp_path / "site.so", copy)
        return ctypes.c_long.in_dll(ctypes.CDLL(str(copy)), "turns_of_hidden").value

    first, second = (each.removeprefix("env.").split("=") for each in drawn.causes)
    monkeypatch.setenv(*first)
    alone = turns("first")
    monkeypatch.setenv(*second)
    assert (alone, turns("both")) == (0, round(1000 * excess))
