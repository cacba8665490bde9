"""What is refused, in one line that says what was asked, what was found and what to do; and what the values mean."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from click.testing import Result

TINY = ("gemm", "-m", "8", "-n", "8", "-k", "8", "--backend", "numpy", "--dry-run")

REFUSED = [
    (["--backend", "jax"], "backend 'jax': there are torch, cupy, numba, numpy"),
    (["--backend", ""], "backend '': there are torch, cupy, numba, numpy"),
    (["--dtype", "float3"], "'float3' is not one of 'float64', 'float32'"),
    (["--math-mode", "tf32", "--dtype", "float64"], "gemm --math-mode tf32 with --dtype float64: tf32 is a mode of"),
    (["--alpha", "nan"], "gemm --alpha nan: a finite number"),
    (["--device", "gpu"], "--device gpu: cpu, cuda:N (N from 0) or all"),
    (["--device", "cuda"], "backend numpy on cuda:0: it runs on cpu only"),
    (["--dtype", "tf32"], "tf32: stored as float32, and a math mode of it: --dtype float32 --math-mode tf32"),
    (["--device", "cuda:0"], "backend numpy on cuda:0: it runs on cpu only"),
    (["--numa-node", "99"], "--numa-node 99: this machine has node"),
    (["--numa-node", "-1"], "'-1' is no memory node: a number, auto or none"),
    (["--numa-node", "first"], "'first' is no memory node: a number, auto or none"),
    (["--cpu-node", "99"], "--cpu-node 99: this machine has node"),
    (["--cpu-node", "-1"], "-1 is not in the range x>=0"),
    (["--cpu-node", "0", "--cpus", "0"], "--cpus 0 with --cpu-node 0: both say where threads run"),
    (["--cpu-kind", "performance", "--cpus", "0"], "--cpus 0 with --cpu-kind performance: both say where threads run"),
    (["--cpu-kind", "\x1b[2J"], "--cpu-kind '\\x1b[2J': a name that primbench topo shows"),
    (["--mem-node", "99"], "--mem-node 99: this machine has node"),
    (["--mem-node", "one"], "'one' is no list of memory nodes: numbers and ranges, as in 0 or 0-1,8"),
    (["--mem-node", ""], "--mem-node '': at least one node, such as 0 or 0,1"),
    (["--mem-policy", "bind"], "--mem-policy bind: it needs nodes; name those of memory"),
    (["--mem-policy", "local", "--mem-node", "0"], "--mem-policy local with --mem-node 0: local memory is"),
    (["--mem-policy", "strict"], "'strict' is not one of 'bind', 'preferred'"),
    (
        ["--numa-node", "0", "--cpu-node", "0", "--mem-node", "0"],
        "--numa-node 0 with --cpu-node 0 and --mem-node 0",
    ),
    (["--cpus", "4095"], "--cpus 4095: this process may run on CPUs "),
    (["--cpus", "3-1"], "3-1 must ascend and stay below"),
    (["--cpus", "abc"], "'abc' is neither a number nor a range such as 0-3"),
    (["--cpus", ""], "at least one CPU number, such as 0-3"),
    (["--threads", "0"], "0 is not in the range x>=1"),
    (["--threads", "two"], "'two' is not a valid whole number"),
    (["-m", "0"], "gemm -m 0: a whole number of at least 1"),
    (["-m", "-5"], "'-5': a whole number such as 4096 or 4K (of 1024, as M and G), or a sweep: 64:4096:2"),
    (["-m", "1.5"], "'1.5': a whole number such as 4096 or 4K (of 1024, as M and G), or a sweep: 64:4096:2"),
    (["-m", "8:4"], "'8:4': a number, or MIN:MAX:FACTOR with 1 <= MIN <= MAX and FACTOR >= 2"),
    (["-m", "0:8"], "'0:8': a number, or MIN:MAX:FACTOR with 1 <= MIN <= MAX and FACTOR >= 2"),
    (["-m", "4KiB"], "'4KiB': a whole number such as 4096 or 4K (of 1024, as M and G), or a sweep: 64:4096:2"),
    (
        ["--against", "nosuch"],
        "'nosuch': no such file; --against takes published:\"NVIDIA V100\", reference:NAME, a",
    ),
    (["--against", ""], "'': no such file; --against takes published:\"NVIDIA V100\", reference:NAME, a results"),
    (["--against", "/"], "/: a folder without results files (*.jsonl)"),
    (
        ["--against", __file__],
        "test_options.py: not a primbench results file, as -o writes it: its first line is no header",
    ),
    (["--against", "published:V9"], "published:V9: there are AMD MI25, AMD Vega FE, "),
    (["--against", "published:TitanX"], "published:TitanX: it may be NVIDIA TitanX Maxwell or NVIDIA TitanX Pascal"),
    (["--against", "reference:h0"], "reference:h0: there are h100, h200"),
    (["--max-noise", "0.5"], "percentage '0.5': expected a positive number and %, as in 0.5%"),
    (["--max-noise", "0%"], "'0%': more than 0%, less than 100%"),
    (["--max-noise", "100%"], "'100%': more than 0%, less than 100%"),
    (["--min-time", "5"], "duration '5': expected a positive number and one of the units ns, us, ms, s, min, h, as"),
    (
        ["--min-time", "3s", "--max-time", "1s"],
        "--min-time 3s, --max-time 1s: the least is above the most",
    ),
    (["--max-time", "0s"], "--max-time 0s: more than 0"),
    (["--timeout", "0s"], "'0s': more than 0, at most 8760h"),
    (["--timeout", "99999999999999h"], "'99999999999999h': more than 0, at most 8760h"),
    (["-o", "a.csv"], "a.csv: -o writes a results file, as a.jsonl: --csv a.csv writes that"),
    (["-o", "a.md"], "a.md: -o writes a results file, as a.jsonl: --markdown a.md writes that"),
    (["-o", "a.toml"], "a.toml: -o writes a results file, as a.jsonl"),
    (["--seed", "-1"], "-1 is not in the range x>=0"),
    (["--processes", "0"], "0 is not in the range"),
    (["--processes", "1000000000"], "1000000000 is not in the range"),
    (["--label", "x"], "'x': write KEY=VALUE"),
    (["--label", "=x"], "'=x': write KEY=VALUE"),
    (["--cache", "warm"], "'warm' is not one of 'hot', 'cold'"),
    (["--time-unit", "m"], "'m' is not one of 'ns', 'us', 'ms', 's'"),
    (["extra"], "unexpected extra argument (extra) (see"),
    (["4096", "4K"], "unexpected extra arguments (4096 4K): write -m 4096 -n 4K (see"),
    (["1", "2", "3", "4"], "unexpected extra arguments (1 2 3 4) (see"),
    (["-o"], "Option '-o' requires an argument"),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_bad_option_is_one_line(arguments: list[str], reason: str, refusal: Callable[..., str]) -> None:
    assert reason in refusal(*TINY, *arguments)


FREE = ["--backend", "--numa-node", "--cpus", "--max-noise", "--min-time", "--max-time", "--timeout", "--label"]
FREE += ["--device", "--dtype", "-m", "--alpha", "--seed", "--threads", "--csv", "--sizes", "--processes", "--resume"]


@settings(max_examples=60)
@given(option=st.sampled_from(FREE), value=st.text(max_size=20) | st.from_regex(r"-?[0-9.e]{1,9}[a-z%:,-]{0,3}"))
def test_any_value_is_taken_or_refused_in_one_line(option: str, value: str, refusal: Callable[..., str]) -> None:
    last = ["--only-to-end-here"] if value == "--" else ["--max-time", "0s", "--min-time", "1s"]
    assert refusal(
        *TINY, "--csv", "/no such folder/x.csv", f"{option}={value}" if option[1] == "-" else option + value, *last
    )


@pytest.mark.parametrize("option", ["-o", "--resume", "--csv", "--markdown", "--json"])
def test_empty_file_name_is_refused_as_an_unset_variable_would_lose_the_results(
    option: str, refusal: Callable[..., str]
) -> None:
    assert "'' names no file" in refusal(*TINY, option, "")


def test_backend_that_is_known_but_not_installed_says_what_to_install(
    refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # Python's own word for a module that cannot be imported
    expected = "--backend cupy: module 'cupy' is not installed: pip install 'cupy-cuda13x[ctk]'"
    assert refusal("gemm", "--backend", "cupy").startswith(expected)


def method(invoke: Callable[..., Result], *arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoke(*TINY, "--json", "-", *arguments).stdout)["records"][0]["case"]["method"]
    return found


def test_durations_and_percentages_become_seconds_and_fractions(invoke: Callable[..., Result]) -> None:
    given = method(invoke, "--max-noise", "0.25%", "--min-time", "10us", "--max-time", "1.5min", "--seed", 7)
    expected = {"max_noise": 0.0025, "min_time_s": 1e-5, "max_time_s": 90.0, "seed": 7}
    assert expected == {name: given[name] for name in expected}


def test_shorter_max_time_takes_the_default_min_time_with_it(invoke: Callable[..., Result]) -> None:
    assert 0.05 == method(invoke, "--max-time", "50ms")["min_time_s"]


def test_defaults_of_the_command_line_are_those_of_the_library(invoke: Callable[..., Result]) -> None:
    import msgspec

    from primbench import Method

    assert msgspec.to_builtins(Method(dry_run=True)) == method(invoke)


def test_a_sweep_is_run_in_every_combination_with_the_rest(invoke: Callable[..., Result]) -> None:
    sizes = ("-m", "2:8", "-m", 5, "-n", "1:9:3", "-k", 4)
    found = json.loads(invoke("gemm", *sizes, "--backend", "numpy", "--dry-run", "--json", "-").stdout)["records"]
    fields = [record["case"]["parameters"] for record in found]
    assert [(m, n) for m in (2, 4, 8, 5) for n in (1, 3, 9)] == [(each["m"], each["n"]) for each in fields]


def test_check_can_be_left_out(invoke: Callable[..., Result]) -> None:
    result = invoke(*TINY, "--no-check")
    assert (0, "not checked") == (result.exit_code, result.stdout.splitlines()[2][-11:])


def test_threads_reach_the_library_and_the_title(invoke: Callable[..., Result]) -> None:
    assert "  1 thread" in invoke(*TINY, "--threads", 1).stdout.splitlines()[0]
    cpu = min(os.sched_getaffinity(0))
    found = invoke(*TINY, "--threads", 2, "--cpus", cpu)
    assert (0, "--threads 2: of CPUs there are 1, so that threads wait for each other\n") == (
        found.exit_code,
        found.stderr,
    )


def test_placement_is_recorded_as_asked_and_as_it_took_effect(invoke: Callable[..., Result]) -> None:
    import os

    cpu = min(os.sched_getaffinity(0))
    document = json.loads(invoke(*TINY, "--cpus", cpu, "--json", "-").stdout)
    assert [cpu] == document["records"][0]["case"]["placement"]["cpus"] == document["workers"][0]["placement"]["cpus"]


def test_label_may_hold_an_equals_sign(invoke: Callable[..., Result], tmp_path: Path) -> None:
    result = invoke(*TINY, "--label", "where=a=b", "--label", "x=y", "--json", "-")
    assert {"where": "a=b", "x": "y"} == json.loads(result.stdout)["header"]["labels"]
