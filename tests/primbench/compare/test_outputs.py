"""Outputs that differ in a bit are told where the same computation gave others, and of no operation of several ones."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from primbench.causes.outputs import corrupted
from primbench.compare.outputs import SeenOutput, deviations
from primbench.measurement.outputs import Output
from primbench.timing.digest import of_host

RIGHT = np.random.default_rng(0).random((30, 40), np.float32)


def bits(flips: int = 0, seed: int = 0) -> str:
    """The digest of an output in which so many bits are flipped."""
    rng, found = np.random.default_rng(seed), RIGHT.copy()
    for place in rng.choice(found.size, flips, replace=False):
        found.view(np.uint32).flat[place] ^= 1
    return of_host(found)


def seen(place: str, process: int, *digests: str, like: bytes = b"") -> SeenOutput:
    calls = {digest: digests.count(digest) for digest in digests}
    return SeenOutput(place, process, Output(digest=digests[0], calls=calls), like)


def places(**given: list[str]) -> list[SeenOutput]:
    """Each with the output of each of its processes, in eight calls."""
    return [seen(place, number, *[each] * 8) for place, found in given.items() for number, each in enumerate(found)]


D, E, F = bits(), bits(1, 1), bits(1, 2)


def test_one_process_that_gives_another_output_each_time_is_named() -> None:
    (found,) = deviations(places(host=[D, D, D], podman=[D, E, D]))
    assert ("podman", 1, 8, 8, 1, 5) == (
        found.place, found.process, found.calls, found.of_calls, found.parts, found.others,
    )  # fmt: skip
    assert "silent-corruption" == found.cause
    assert 16 == found.of_parts


def test_one_call_among_a_thousand_is_named() -> None:
    all_else = places(host=[D, D], podman=[D])
    (found,) = corrupted([*all_else, seen("podman", 1, E, *[D] * 1000)])
    assert ("podman", 1, 1, 1001) == (found.place, found.process, found.calls, found.of_calls)
    assert [] == [*corrupted([*all_else, seen("podman", 1, E, *[D] * 9)])]  # that may be an operation of two outcomes


def test_a_place_that_agrees_with_itself_and_with_no_other_is_named_also_of_one_process_a_side() -> None:
    (found,) = corrupted(places(host=[D, D], again=[D, D], podman=[E, E]))
    assert ("podman", None, 4, 16) == (found.place, found.process, found.others, found.of_calls)
    (found,) = corrupted(places(monday=[D], tuesday=[E]))
    assert ("tuesday", 0, 1) == (found.place, found.process, found.others)
    once = [seen("monday", 0, D), seen("tuesday", 0, E)]
    assert [] == [*corrupted(once)]  # whether they repeat themselves is not known


def test_nodes_of_a_large_fleet_may_each_have_their_own() -> None:
    nodes = {f"n{number:02}": [D] for number in range(30)} | {"n07": [E], "n23": [F]}
    assert ["n07", "n23"] == [each.place for each in corrupted(places(**nodes))]


@pytest.mark.parametrize(
    "given",
    [
        {"host": [D, E, D], "podman": [D, D, E]},  # both places have both
        {"host": [D, E], "podman": [F, D]},
        {"host": [D, D], "podman": [E, F]},
        {"host": [D, D, D], "podman": [bits(600, 1)] * 3},  # everywhere: another order of summation
        {"host": [D, D, D], "podman": [D, D, of_host(RIGHT.T)]},
    ],
)
def test_what_does_not_repeat_itself_or_differs_everywhere_is_not_told(given: dict[str, list[str]]) -> None:
    assert [] == [*corrupted(places(**given))]


def test_other_libraries_processors_and_threads_may_give_other_bits() -> None:
    assert [] == [*corrupted([seen("host", 0, D, D, like=b"a"), seen("podman", 0, E, E, like=b"b")])]
    alike = [seen("host", number, D, D, like=b"a") for number in range(3)]
    assert [] == [*corrupted([*alike, seen("podman", 0, E, E, like=b"b")])]


@pytest.mark.parametrize("outcomes", [2, 3, 50])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_operations_of_several_outcomes_raise_no_false_alarm(outcomes: int, share: float) -> None:
    """As processes look at them: the first one makes two calls, one whose output is unknown many."""
    rng, alarms = random.Random(1), 0
    others = [bits(1, number) for number in range(1, outcomes)]

    def call() -> str:
        return rng.choice(others) if rng.random() < share else D

    def process(known: set[str]) -> list[str]:
        made = [call()]
        while (len(known) < 2 and made[0] not in known) or len(made) > 1:
            counts = Counter(made)
            most = 21 if known else 8
            if len(made) >= 1000 or min(counts.values()) > 1 < len(counts) or len(counts) > 2:
                break
            if len(counts) == 1 and len(made) >= most:
                break
            made.append(call())
        return made

    for _ in range(100):
        found = []
        for place in ("host", "podman"):
            known: set[str] = set()
            for number in range(3):
                made = process(known)
                known.add(made[0])
                found.append(seen(place, number, *made))
        alarms += bool([*corrupted(found)])
    assert 0 == alarms
