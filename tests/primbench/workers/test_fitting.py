from __future__ import annotations

from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.workers.fitting import too_many_or_few


def test_ranks_on_another_machine_are_not_counted_against_the_cpus_here() -> None:
    case = Case(primitive="allreduce", parameters={"bytes": 64, "ranks": 9999}, backend="numpy", device="cpu")
    assert "9999 ranks need a CPU each" in str(too_many_or_few(case, None, parse_arm("host"), None))
    assert too_many_or_few(case, None, parse_arm("ssh:far"), None) is None


def test_each_rank_needs_a_cpu_of_those_that_its_place_has() -> None:
    case = Case(primitive="allreduce", parameters={"bytes": 64, "ranks": 2}, backend="numpy", device="cpu")
    for place, cpus in (("host:affinity=0", 1), ("host:cpuset=0", 1), ("host:affinity=0-3", 4)):
        reason = too_many_or_few(case, None, parse_arm(place), None)
        assert (f"2 ranks need a CPU each, and may use {cpus}" in str(reason)) == (cpus < 2)
