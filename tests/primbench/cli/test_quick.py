"""`primbench run quick`, with nothing but what is installed."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

from primbench.problem import backends_of, primitives


def test_nothing_of_it_fails(invoke: Callable[..., Result]) -> None:
    # One thread: where other work has the CPUs, threads that spin for one another take ten times as long.
    short = ("--threads", 1, "--min-time", "1ms", "--max-time", "10ms")
    result = invoke("run", "quick", "--device", "cpu", "--backend", "numpy", *short, "--json", "-")
    records = json.loads(result.stdout)["records"]
    assert (0, {"ok"}) == (result.exit_code, {record["status"] for record in records})
    expected = {name for name in primitives() if "numpy" in backends_of(name)}
    assert expected == {record["case"]["primitive"] for record in records}
