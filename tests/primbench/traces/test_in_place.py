"""Parts of a captured step alone and in place: by a made up trace of a GPU, and by real ones of a CPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from primbench.backends import missing
from primbench.results.step_parts import Part
from primbench.traces.in_place import InPlace, NamedPart, _same, as_traced, in_place, named_parts
from primbench.traces.kineto import read

from ..decompose.test_script import answers
from .test_traces import Event, event, ran, steps, written

if TYPE_CHECKING:
    from click.testing import Result

SHORT = ("--device", "cpu", "--min-time", "1ms", "--max-time", "5ms", "-q")
SCRIPT = """
import contextlib, sys, time, torch
from torch.profiler import ProfilerActivity, profile, schedule

class Slow:
    def __len__(self): return 24
    def __getitem__(self, number):
        time.sleep({data_s})
        return torch.ones({rows}, {size})

module = torch.nn.Linear({size}, {size})
optimizer = torch.optim.SGD(module.parameters(), 1e-9)
steps = schedule(wait=2, warmup=1, active=6, repeat=1)
profiler = profile(activities=[ProfilerActivity.CPU], schedule=steps) if len(sys.argv) > 1 else contextlib.nullcontext()
with profiler:
    for batch in torch.utils.data.DataLoader(Slow()):
        time.sleep({own_s})
        module(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if len(sys.argv) > 1: profiler.step()
if len(sys.argv) > 1: profiler.export_chrome_trace(sys.argv[1])
"""


def test_kernels_of_a_trace_are_of_the_outermost_operator_of_a_name_or_have_it(tmp_path: Path) -> None:
    """Those of a CUDA graph have no operator."""

    def step(at: float) -> Iterable[Event]:
        number = round(at) * 10
        yield event("cpu_op", "aten::div", at + 10, 60)
        yield event("cpu_op", "aten::copy_", at + 15, 20)
        yield from ran(number, at + 20, at + 100, 30)
        yield from ran(number + 1, at + 50, at + 130, 10, "gemm")
        yield event("cuda_runtime", "cudaGraphLaunch", at + 80, 5, correlation=number + 2)
        for begin, name in ((150, "triton_poi_fused_0"), (170, "gemm")):
            yield event("kernel", name, at + begin, 15, correlation=number + 2, device=0, stream=7)

    trace = read(written(tmp_path, steps(step, 400)))
    names = ("div", "copy_", "triton_poi_fused_0", "absent")
    own, others = in_place(trace, names)
    assert {"div": (1.0, 40.0), "triton_poi_fused_0": (1.0, 15.0)} == _us(own)
    assert {"gemm": (1.0, 15.0)} == _us(others)
    parts = [Part("other operators", name, 2, 5e-6, 1e-6, "", []) for name in names]
    parts.append(Part("other operators", "absent", 1, None, None, "not again", []))
    found = {each.name: each for each in named_parts(parts, trace)}
    assert next(iter(found)) == "div"
    assert (2, 10.0) == (found["div"].calls, round((found["div"].alone_s or 0) * 1e6, 3))
    assert NamedPart("absent", 3, None, None, "not again") == found["absent"]
    assert (None, None) == (found["gemm"].calls, found["gemm"].alone_s)


def test_calls_in_place_are_those_of_the_median_steps_whichever_came_first(tmp_path: Path) -> None:
    """The longer one of the two in the middle is the first."""
    events, at = [], 0.0
    for number, (us, calls) in enumerate(((300, 2), (100, 2), (90, 2), (500, 9))):
        events.append(event("user_annotation", f"ProfilerStep#{number}", at, us))
        events += [event("cpu_op", "aten::mm", at + 20 * n, us / 20) for n in range(calls)]
        at += us
    own, _ = in_place(read(written(tmp_path, events)), ["mm"])
    assert {"mm": (2.0, 20.0)} == _us(own)


def _us(found: dict[str, InPlace]) -> dict[str, tuple[float, float]]:
    return {name: (each.calls, round(each.time_s * 1e6, 3)) for name, each in found.items()}


@pytest.mark.quiet
@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
@pytest.mark.parametrize(
    ("part", "given"),
    [
        ("data", {"data_s": 0.03, "own_s": 0, "size": 64, "rows": 1}),
        ("python", {"data_s": 0, "own_s": 0.03, "size": 64, "rows": 1}),
        ("operators", {"data_s": 0, "own_s": 0, "size": 2000, "rows": 256}),
    ],
)
def test_a_trace_of_the_script_and_the_captured_step_say_the_same_of_what_bounds_it(
    part: str, given: dict[str, Any], invoke: Callable[..., Result], tmp_path: Path
) -> None:
    from primbench.decompose.written import suite_of

    text = SCRIPT.format(**given)
    step, trace = tmp_path / "step.toml", tmp_path / "trace.json"
    step.write_text(suite_of(answers(tmp_path, text, number=10)[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["own.py", str(trace)])
        exec(compile(text, "own.py", "exec"), {"__name__": "__main__"})
    done = invoke("explain", step, trace, *SHORT, "--json", tmp_path / "told.json")
    assert 0 == done.exit_code, done.stderr
    assert "The parts, measured alone, say the same of what bounds it, as far as a trace tells." in done.stdout
    (told,) = json.loads((tmp_path / "told.json").read_text())
    assert part == told["in_place"]["part"]
    product = next(each for each in told["in_place"]["parts"] if each["name"] == "addmm")
    assert 1.0 == product["in_place"]["calls"]
    assert product["in_place"]["time_s"] > 0


def test_a_wait_for_a_cpu_and_new_memory_are_of_what_a_trace_counts_them_as() -> None:
    told = as_traced({"queue": 6.0, "operators": 1.0, "faults": 1.0, "python": 1.0, "ranks": 2.0, "unexplained": 1.0})
    assert {"operators": 6.0, "python": 3.0, "collectives": 2.0, "unexplained": 1.0} == pytest.approx(told)
    assert {"queue": 6.0} == as_traced({"queue": 6.0})


def test_a_step_and_its_trace_agree_where_neither_excludes_what_the_other_names() -> None:
    assert _same(["python", "operators"], ["operators", "python"]).startswith("The parts, measured alone, say the same")
    assert _same(["python", "operators"], ["operators"]) == (
        "By the parts, measured alone, Python between operators bounds it, or torch's operators; by the trace torch's "
        "operators bound it. Neither excludes that torch's operators bound it."
    )
    assert _same([], ["data"]).endswith("most of it is unexplained; by the trace the data loader bounds it.")
