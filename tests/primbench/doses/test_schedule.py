"""In which order doses are given where there is little time, to made-up processes of a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from primbench.doses.dosing import Dosing
from primbench.doses.factors import DosingPlace
from primbench.doses.schedule import give_doses
from primbench.kernels.replay import Replay
from primbench.kernels.replay.problem import Part, encoded
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.case import Case

START_S, START_UNDER_QUOTA_S, CASE_S = 3.0, 8.0, 3.0
CALLS = encoded([Part("gemm", {"m": 16, "n": 16, "k": 16})], [0])


class Slow(Dosing):
    """Takes time alone."""

    clock_s = 0.0

    def _pair(self, name: str, arms: Sequence[Arm], cases: Sequence[Case]) -> None:
        start_s = START_UNDER_QUOTA_S if any(each.cpus for each in arms) else START_S
        timed_s = CASE_S * len(arms) * len(cases)
        self.numbers[name].append(sum(map(len, self.numbers.values())))
        self.took_s[name].append(start_s + timed_s)
        Slow.clock_s += start_s + timed_s
        self._cases += len(arms) * len(cases)
        self._timed_s += timed_s
        self._starts_s.append(START_S)


@pytest.mark.parametrize(("budget_s", "tried"), [(60.0, ["calls", "beside", "quota"]), (36.0, ["calls", "beside"])])
def test_the_quickest_harms_are_tried_first(budget_s: float, tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: Slow.clock_s)
    case = Case(primitive="replay", parameters=Replay(calls=CALLS).parameters(), backend="torch", device="cuda:0")
    here = DosingPlace("cuda:0", (0, 1), 1, 1.0)
    nothing = Results(header=header([], {}), workers=[], records=[])
    dosing = Slow(step=case, here=here, found=nothing, writer=None, timeout_s=1.0)
    begun_s = Slow.clock_s
    give_doses(dosing, begun_s + budget_s)
    firsts = {numbers[0]: name for name, numbers in dosing.numbers.items() if numbers}
    assert tried == [firsts[number] for number in sorted(firsts)]
    assert Slow.clock_s < begun_s + budget_s
