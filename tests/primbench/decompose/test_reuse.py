"""How far apart a step's uses of its data lie, by hand and by what torch does, and how such parts are measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import primbench
import primbench.suites as suites
from primbench.backends import missing
from primbench.decompose.reuse import Reuse, Use, distances, median_bytes, places_of, reuse_bytes
from primbench.problem.operands import Operand
from primbench.problem.operators import Call, Touched
from primbench.results.file import read
from primbench.system import memory

if TYPE_CHECKING:
    from click.testing import Result

A, B, C, D = 1, 2, 3, 4  # storages
needs_torch = pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))


def calls_of(*touches: Touched | None) -> list[Call]:
    return [Call("aten.add.Tensor", [], {}, touched=each) for each in touches]


def test_distances_of_a_step_that_is_made_again_and_again() -> None:
    step = calls_of(
        Touched({A: 100}, {B: 10}),
        Touched({B: 10}, {C: 1000}),
        None,
        Touched({B: 10, C: 1000}),
        Touched({A: 50}, {D: 1}),
    )
    assert [
        {A: (1 + 100, 100)},  # used by the last call of the step before, which made D
        {B: (10, 10)},  # just made
        {},
        {B: (1000 + 10, 10), C: (1000, 1000)},  # B was used before C was made
        {A: (50 + 10 + 1000, 50)},
    ] == distances(step)


def naive(trace: list[Touched]) -> list[dict[int, tuple[int, int]]]:
    """By an ordered list of storages, looked through from its end."""
    order: dict[int, int] = {}
    found = []
    for each in trace * 2:
        storages = list(order)
        found.append(
            {
                address: (size + sum(order[other] for other in storages[storages.index(address) + 1 :]), size)
                for address, size in each.given.items()
                if address in order
            }
        )
        for address, size in [*each.given.items(), *each.made.items()]:
            order.pop(address, None)
            order[address] = size
    return found[len(trace) :]


storages = st.dictionaries(st.integers(1, 6), st.integers(1, 10**9), max_size=4)


@given(st.lists(st.builds(Touched, storages, storages), max_size=12))
def test_distances_are_those_of_a_list_in_the_order_of_use(trace: list[Touched]) -> None:
    assert naive(trace) == distances(calls_of(*trace))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [([], None), ([(7, 1)], 7), ([(1, 10), (100, 11)], 100), ([(100, 1), (1, 1)], 1), ([(5, 1), (9, 3), (6, 1)], 9)],
)
def test_half_of_the_bytes_lie_within_the_median(pairs: list[tuple[int, int]], expected: int | None) -> None:
    assert expected == median_bytes(Reuse(*each) for each in pairs)


def test_each_input_of_a_case_has_the_median_of_its_own_distances() -> None:
    """What the operator is given before them is no input of this case."""
    bias, a, b = (Operand("float32", shape, (1,)) for shape in ((2,), (3,), (4,)))
    call = Call("aten.addmm.default", [bias, a, b], {})
    places = places_of((a, b), call)
    assert (1, 2) == places
    assert () == places_of((a, Operand("float32", (3,), (1,))), call)  # alike, and not the same
    near, far = Reuse(10, 5), Reuse(1000, 7)
    uses = [Use(places, (A, B, C), {A: Reuse(1, 1), B: near, C: each}) for each in (near, far, far)]
    assert [10, 1000] == reuse_bytes(uses)
    assert [10, 0] == reuse_bytes([Use(places, (A, B, 0), {A: near, B: near})])  # one on the host
    assert 5000 == reuse_bytes([*uses, Use((), (A,), {A: Reuse(5000, 100)})])  # one of which they are not known
    assert reuse_bytes([Use((), (), {})]) is None
    assert reuse_bytes([]) is None


@needs_torch
@pytest.mark.wheel
def test_parts_are_measured_with_the_cache_that_the_step_leaves_them(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    """Weights that together are three times the cache, and a small operator that is made again and again."""
    import torch

    cache_bytes = memory.last_level_cache_bytes()
    width = 1024
    count = 1 + 3 * cache_bytes // (4 * width * width)
    weights = [torch.ones(width, width) for _ in range(count)]
    small, table, row = torch.ones(32, 32), torch.ones(cache_bytes // 16, 8), torch.zeros(1, dtype=torch.int64)
    with primbench.capture() as step:
        for each in weights:
            each.mul_(0.5)
        for _ in range(5):
            small.neg()
            table[row]  # reads one row of what is larger than the cache
        torch.zeros(3)
    path, results = tmp_path / "step.toml", tmp_path / "results.jsonl"
    step.write(path)
    far = {entry.labels["label"]: entry.labels.get("reuse_bytes") for entry in suites.read(path)}
    weights_bytes = count * 4 * width * width
    assert abs(json.loads(far["mul_"] or "")[0] - weights_bytes) < 2**20
    assert json.loads(far["neg"] or "")[0] < 2**20
    assert far["zeros"] is None  # it is given nothing
    short = ("--device", "cpu", "--min-time", "1ms", "--max-time", "2ms", "--no-check", "-q")
    explained = invoke("explain", path, *short, "-o", results, "--json", "-")
    assert 0 == explained.exit_code, explained.output
    caches = {record.case.labels["label"]: record.cache for record in read(results).records}
    assert {"mul_": "step", "neg": "hot", "index": "hot", "zeros": "hot"} == caches
    (found,) = json.loads(explained.stdout)
    assert count == found["far"]
    assert (
        f"{count} of {found['calls']} calls are measured with a cache as the step" in invoke("explain", results).stdout
    )


FAR = f"reuse_bytes = {2**50}"
OWN = f"""
gemm = [
  {{ set = "parts", count = 2, id = "old", m = 2, n = 1024, k = 1024 }},
  {{ set = "parts", count = 3, id = "near", m = 2, n = 1024, k = 1024, reuse_bytes = 0 }},
  {{ set = "parts", count = 4, id = "far", m = 2, n = 1024, k = 1024, {FAR} }},
  {{ set = "parts", count = 5, id = "each", m = 2, n = 1024, k = 1024, reuse_bytes = [0, {2**50}] }},
  {{ set = "parts", count = 5, id = "small", m = 4, n = 4, k = 4, {FAR} }},
]
"""


def test_an_entry_that_says_nothing_is_measured_hot_and_what_the_command_line_says_is_obeyed(
    invoke: Callable[..., Result], tmp_path: Path
) -> None:
    """Files had no reuse_bytes before. Of a product of 4 x 4 there would be too many sets of inputs: it is hot."""
    (tmp_path / "step.toml").write_text(OWN)

    def caches(command: str, *options: str) -> dict[str, tuple[str, str]]:
        """With which each was measured, or why not."""
        results = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        short = ("--device", "cpu", "--backend", "numpy", "--min-time", "1ms", "--max-time", "2ms", "--no-check", "-q")
        invoke(command, tmp_path / "step.toml", *short, *options, "-o", results)
        return {each.case.labels["id"]: (each.status, each.cache) for each in read(results).records}

    one = ("--threads", "1")
    hot, cold, as_in_step = ("ok", "hot"), ("ok", "cold"), ("ok", "step")
    by_itself = {"old": hot, "near": hot, "far": as_in_step, "each": as_in_step, "small": hot}
    assert by_itself == caches("explain", *one)
    assert by_itself == caches("run", *one)
    assert by_itself == caches(
        "study", "--arm", "host:threads=1", "--arm", "host:threads=1,env.OTHER=1", "--pairs", "1"
    )
    assert dict.fromkeys(by_itself, hot) == caches("explain", *one, "--cache", "hot")
    assert {**dict.fromkeys(by_itself, cold), "small": ("skipped", "cold")} == caches("run", *one, "--cache", "cold")


def test_numbers_that_are_not_those_of_the_inputs_are_refused(invoke: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "step.toml").write_text(
        'gemm = [{ set = "parts", count = 2, m = 2, n = 4, k = 4, reuse_bytes = [1, 2, 3] }]\n'
    )
    results = tmp_path / "results.jsonl"
    invoke("explain", tmp_path / "step.toml", "--device", "cpu", "--backend", "numpy", "-q", "-o", results)
    (record,) = read(results).records
    assert "skipped" == record.status
    assert str(record.reason).startswith("reuse_bytes has 3 numbers, and gemm takes 2 here: one for each input, or ")
