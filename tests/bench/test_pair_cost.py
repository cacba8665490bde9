"""What a pair takes is all in the table, of real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import pair_cost

SUITE = 'title = "Two"\ngemm = [{ m = 16, n = 16, k = 16 }]\nlaunch = [{ call = "getppid" }]\n'


def test_the_phases_of_a_pair_add_up_to_its_wall_time(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(SUITE)
    how = "--arm host --self --pairs 2 --backend numpy --device cpu --min-time 1ms --max-time 5ms -q"
    found = pair_cost.cost([tmp_path / "two.toml", *how.split()], tmp_path / "two.jsonl")
    assert (2, 2) == (found.pairs, found.cases)
    assert found.wall_s == pytest.approx(sum(found.by_phase_s.values()))
    little_s = 0.05 * found.wall_s  # on a busy machine both are longer
    assert found.by_phase_s[pair_cost.REST] <= little_s
    assert min(found.by_phase_s.values()) >= -little_s  # an answer may have been heard before it was asked for
    of_workers = {f"start: {phase}" for phase in ("process", "import", "place", "framework", "context", "look")}
    of_cases = {
        "inputs",
        "estimate",
        "setup",
        "first calls",
        "check",
        "own CPU",
        "warm-up",
        "batch_s",
        "wall_s",
        "timing",
        "look",
    }
    assert of_workers | of_cases | {"turns that change", "results file", "end"} <= found.by_phase_s.keys()
    (title, *rows) = pair_cost.table(found)
    assert title.startswith("a pair of 2 cases, the mean of 2: ")
    assert len(rows) == len(found.by_phase_s)
