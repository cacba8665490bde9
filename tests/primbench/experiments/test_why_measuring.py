"""How long places between a fast and a slow one are measured for."""

from __future__ import annotations

import pytest

from primbench.experiments.why.measuring import OF_A_QUOTA_S, cases_of
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.study import Study


@pytest.mark.parametrize(("slow", "lasting_s"), [("host:cpus=0.5", OF_A_QUOTA_S), ("host:umask=0077", (0.05, 0.1))])
def test_a_quota_has_time_to_stop_a_process(slow: str, lasting_s: tuple[float, float]) -> None:
    method = Method(min_time_s=0.05, max_time_s=0.1)
    case = Case(primitive="gemm", parameters={"m": 4, "n": 4, "k": 4}, backend="numpy", device="cpu", method=method)
    (found,) = cases_of(Study(arms=[parse_arm("host"), parse_arm(slow)], cases=[case], pairs=2, seed=0))
    assert (found.method.min_time_s, found.method.max_time_s) == lasting_s
