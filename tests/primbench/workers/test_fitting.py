from __future__ import annotations

from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.workers.fitting import too_many_or_few


def test_ranks_on_another_machine_are_not_counted_against_the_cpus_here() -> None:
    case = Case(primitive="allreduce", parameters={"bytes": 64, "ranks": 9999}, backend="numpy", device="cpu")
    assert "9999 ranks need a CPU each" in str(too_many_or_few(case, None, parse_arm("host"), None))
    assert too_many_or_few(case, None, parse_arm("ssh:far"), None) is None
