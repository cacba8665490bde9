"""Causes that facts of two places show: each named where it moves a case, and not where both places have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
Seen = Mapping[str, Any]
Causes = Callable[..., list[str]]

HERE = fingerprint.collect(gpus=False)
MAPPED = ("files", {"bytes": 2**24, "what": "mmap"}, "numpy")
START = ("startup", {"what": "numpy"}, "numpy")
PRODUCT = ("gemm", {"m": 64, "n": 64, "k": 64}, "torch")
COPY = ("memcpy", {"bytes": 4096}, "numpy")
BETWEEN_RANKS = ("collective", {"bytes": 4096}, "torch")
CALL = ("launch", {"call": "getppid"}, "numpy")
FOLDERS = ("temporary files", "Python")
MUCH = {
    "confinement.disks": dict.fromkeys(FOLDERS, "vda"),
    "confinement.read_ahead_bytes": dict.fromkeys(FOLDERS, 2**22),
}
LITTLE = {
    "confinement.disks": {"temporary files": "loop0", "Python": "vda"},
    "confinement.read_ahead_bytes": {"temporary files": 2**14, "Python": 2**22},
}
NONE = LITTLE | {"confinement.read_ahead_bytes": {"temporary files": 0, "Python": 2**22}}
USUAL = MUCH | {"confinement.read_ahead_bytes": dict.fromkeys(FOLDERS, 2**17)}
UNTOLD = {"confinement.disks": None, "confinement.read_ahead_bytes": None}
EIGHT_SOCKETS = {"machine.cores_by_package": [1] * 8, "software.threads": {"torch": 1}}
ONE_SOCKET = {"machine.cores_by_package": [8], "software.threads": {"torch": 8}}
GVISOR = {
    "machine.virtualization": "gVisor",
    "machine.clock_s": 14e-6,
    "machine.kernel": "4.4.0",
    "confinement.open_file_s": 40e-6,
    "confinement.root_filesystem": "9p",
}


def place(seen: Seen) -> Environment:
    document = msgspec.to_builtins(HERE, str_keys=True)
    for name, value in seen.items():
        group, field = name.split(".")
        document[group][field] = value
    return msgspec.convert(document, Environment, strict=False)


@pytest.fixture
def causes(made_study: MadeStudy) -> Causes:
    """``causes(what, ratio, one, other)``: of a case in two places that are this one but for what is said of each."""

    def told(what: tuple[str, dict[str, Any], str], ratio: float, one: Seen, other: Seen) -> list[str]:
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 2e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            samples = Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=samples)

        primitive, parameters, backend = what
        of_case = build(primitive, parameters).parameters()
        case = Case(primitive=primitive, parameters=of_case, backend=backend, device="cpu")
        study = made_study(["host:name=one", "host:name=other"], [case], measured)
        places = {"one": place(one), "other": place(other)}
        for number, worker in enumerate(study.workers):
            assert worker.arm is not None
            study.workers[number] = replace(worker, environment=places[worker.arm.name])
        (arm,) = compare(study).arms
        explanation = arm.cases[0].explanation
        return explanation.causes if explanation else []

    return told


def test_a_disk_that_is_read_little_ahead_is_named(causes: Causes) -> None:
    for what in (MAPPED, START):
        for little, size in ((LITTLE, "16 KiB"), (NONE, "0 B")):
            first, *_ = causes(what, 16.0, MUCH, little)
            assert first.startswith(f"in other alone: loop0 is read {size} ahead at most")
    first, *_ = causes(MAPPED, 1 / 16, LITTLE, MUCH)
    assert first.startswith("in one alone: loop0 is read 16 KiB ahead at most")


def test_another_read_ahead_that_is_not_small_is_told_as_a_difference(causes: Causes) -> None:
    first, *_ = causes(MAPPED, 1.5, MUCH, USUAL)
    assert first.startswith("another read-ahead of disks: read_ahead_bytes.Python is 4 MiB in one and 128 KiB in other")


def test_read_ahead_that_both_have_or_that_is_not_known_is_none(causes: Causes) -> None:
    for one, other in ((LITTLE, LITTLE), (UNTOLD, LITTLE), (MUCH, UNTOLD), (MUCH, MUCH)):
        assert not [each for each in causes(MAPPED, 16.0, one, other) if "ahead" in each and "alone" not in each]
    assert not [each for each in causes(MAPPED, 16.0, LITTLE, LITTLE) if "ahead" in each]


def test_read_ahead_makes_nothing_faster_and_slows_no_launches(causes: Causes) -> None:
    assert not [each for each in causes(MAPPED, 0.5, MUCH, LITTLE) if "ahead" in each]
    assert not [each for each in causes(CALL, 2.0, MUCH, LITTLE) if "ahead" in each]


def test_sockets_of_one_core_are_named_where_threads_differ(causes: Causes) -> None:
    told = [each for each in causes(PRODUCT, 6.0, ONE_SOCKET, EIGHT_SOCKETS) if "sockets" in each]
    assert ["sockets of one core each in other, by which programs choose other numbers of threads"] == told
    same_threads = EIGHT_SOCKETS | {"software.threads": {"torch": 8}}
    for one, other in ((EIGHT_SOCKETS, EIGHT_SOCKETS), (ONE_SOCKET, same_threads)):
        assert not [each for each in causes(PRODUCT, 6.0, one, other) if "sockets" in each]


def test_gvisor_is_named_before_and_in_place_of_what_is_slow_there(causes: Causes) -> None:
    first, *others = causes(START, 2.0, {}, GVISOR)
    assert first.startswith("in other alone: gVisor stands in for the kernel")
    assert not [each for each in others if "clock" in each or "another machine" in each or "opening a file" in each]
    assert not [each for each in causes(START, 2.0, GVISOR, GVISOR) if "gVisor" in each]


def test_what_looks_at_calls_is_named_before_calls_that_are_slow_for_it(causes: Causes) -> None:
    """The copy itself makes none, so that none is seen to be dear in it."""
    usual = {"confinement.tracer": "none", "confinement.system_call_s": 2e-7}
    traced = {"confinement.tracer": "42 (strace)", "confinement.system_call_s": 6e-5}
    first, second, *_ = causes(COPY, 3.0, usual, traced)
    assert first.startswith("in other alone: process 42 (strace) traces this one")
    assert second.startswith("in other alone: a cheap system call takes 60.0 us")


def test_what_medians_show_is_named_before_what_stops_threads_now_and_then(causes: Causes) -> None:
    one, other = ({"limits.memory_nodes_allowed": [node], "machine.numa_balancing": bool(node)} for node in (0, 1))
    first, second, *_ = causes(COPY, 3.0, one, other)
    assert (first.partition(":")[0], second.partition(":")[0]) == ("other memory", "pages moved by the kernel")


def test_other_preloads_are_named_before_bytecode_which_makes_a_start_ten_times_as_long_at_most(causes: Causes) -> None:
    library = {"path": "/lib/libown.so", "version": "1", "build_id": "ab", "size_bytes": 4096, "missing": {}}
    other = {"software.variables": {"PYTHONDONTWRITEBYTECODE": "1"}, "software.preloads": {"libown": [library]}}
    told = [each.partition(":")[0] for each in causes(START, 3.0, {"software.variables": {}}, other)]
    assert told == ["other libraries before all others", "other bytecode of modules"]


def test_little_memory_to_share_is_named_beside_little_to_lock(causes: Causes) -> None:
    enough = {"machine.infiniband": ["mlx5_0"], "limits.shm_bytes": 2**34, "limits.memlock_bytes": None}
    little = enough | {"limits.shm_bytes": 2**26, "limits.memlock_bytes": 2**16}
    told = causes(BETWEEN_RANKS, 3.0, enough, little)
    assert {"locked-memory", "shared-memory"} <= {each.rpartition("(")[2].rstrip(")") for each in told}
    assert not [each for each in told if each.startswith("other shared memory")]


def test_a_variable_that_differs_is_told_beside_one_whose_values_need_not_be_alike(causes: Causes) -> None:
    known = {"software.variables": {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1", "LD_DYNAMIC_WEAK": "1"}}
    told = causes(PRODUCT, 3.0, {"software.variables": {}}, known)
    assert any("ONEDNN_PRIMITIVE_CACHE_CAPACITY is set: oneDNN generates" in each for each in told)
    assert any("LD_DYNAMIC_WEAK is none in one and 1 in other" in each for each in told)


def test_entries_of_a_variable_are_told_as_what_the_variable_is(made_study: MadeStudy) -> None:
    def measured(name: str, case: Case, pair: int) -> Measurement:
        times_s = [1e-3 * (1 + pair / 1e4) * (3 if name == "other" else 1)] * 9
        return Measurement(batch_s=Samples(samples_s=times_s, calls_per_sample=1, taken_by="", stopped="noise"))

    primitive, parameters, backend = START
    case = Case(
        primitive=primitive, parameters=build(primitive, parameters).parameters(), backend=backend, device="cpu"
    )
    arms = ["host:name=one", "host:first.PYTHONPATH=/x,unset=GIT_DIR,name=other"]
    (arm,) = compare(made_study(arms, [case], measured)).arms
    changed = [f"the variable {name} is changed in other" for name in ("PYTHONPATH", "GIT_DIR")]
    explanation = arm.cases[0].explanation
    assert explanation is not None
    assert [changed[0], f"{changed[1]}, which nothing is known to read"] == explanation.causes
    assert changed[::-1] == [each.words for each in arm.differing]
