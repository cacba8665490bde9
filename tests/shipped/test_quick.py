"""What is shipped to be run first: ``primbench run quick`` and the studies, on every CPU backend that is installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import primbench
import primbench.suites as suites
from primbench.backends import devices_of, missing, names
from primbench.problem import Problem
from primbench.registry import backends_of, primitives

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = pytest.mark.wheel

ON_CPUS = [name for name in names() if "cpu" in devices_of(name)]
# One thread: where other work has the CPUs, threads that spin for one another take ten times as long.
SHORT = ("--device", "cpu", "--min-time", "1ms", "--max-time", "2ms")


@pytest.fixture(params=ON_CPUS)
def backend(request: pytest.FixtureRequest) -> str:
    if (reason := missing(request.param)) is not None:
        pytest.skip(reason)
    return str(request.param)


def on_a_cpu(suite: str) -> Iterator[Problem]:
    """What it measures there."""
    for entry in suites.read(suite):
        if entry.labels.get("device") in (None, "cpu"):
            yield entry.problem


def test_nothing_of_it_fails(backend: str, invoke: Callable[..., Result]) -> None:
    result = invoke("run", "quick", "--backend", backend, "--threads", 1, *SHORT, "--json", "-")
    cases = [(each["case"]["primitive"], each["status"]) for each in json.loads(result.stdout)["records"]]
    asked = [problem.primitive for problem in on_a_cpu("quick")]
    assert sorted((name, "ok" if backend in backends_of(name) else "skipped") for name in asked) == sorted(cases)
    assert 0 == result.exit_code
    assert {name for name in primitives() if "numpy" in backends_of(name) and name != "time"} == set(asked)


QUICK_STUDIES = ("containers", "numa", "shared")  # the others are of whole models, and take minutes


@pytest.mark.parametrize("name", QUICK_STUDIES)
def test_nothing_of_a_study_fails(name: str, invoke: Callable[..., Result]) -> None:
    if suites.study(name).beside and (reason := missing("torch")) is not None:
        pytest.skip(f"its neighbour is a whole model: {reason}")
    once = ("--arm", "host:threads=1", "--self", "--pairs", 1, "--backend", "numpy", "--fail-on", "never")
    on_numpy = dict.fromkeys(each.primitive for each in on_a_cpu(name) if "numpy" in backends_of(each.primitive))
    result = invoke("study", name, *once, *SHORT, *(word for each in on_numpy for word in ("--primitive", each)))
    assert 0 == result.exit_code, result.output
    assert "not compared" not in result.stdout


def test_what_studies_have_beside_it_does_not_fail_either(backend: str) -> None:
    if backend == "numpy":
        pytest.skip("the test above measures it all, whatever the architecture")
    quick = set(on_a_cpu("quick"))
    studied = dict.fromkeys(problem for name in QUICK_STUDIES for problem in on_a_cpu(name))
    others = [each for each in studied if each not in quick and backend in backends_of(each.primitive)]
    method = primbench.Method(min_time_s=0.001, max_time_s=0.002)
    ended = primbench.run([*others], backend=backend, device="cpu", method=method)
    assert [("ok", None)] * len(others) == [(each.status, each.reason) for each in ended]
