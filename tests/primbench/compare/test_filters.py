"""Filters of system calls as causes: named where what was timed calls what they look at, and they made calls dearer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
NS = 1e-9


def place(seccomp: str, call_s: float | None, filters: int = 0) -> Environment:
    confinement = replace(HERE.confinement, seccomp=seccomp, seccomp_filters=filters, system_call_s=call_s)
    return replace(HERE, confinement=confinement)


OPEN, FILTERED = place("disabled", 300 * NS), place("filter", 360 * NS, 1)


@pytest.fixture
def causes(made_study: MadeStudy) -> Callable[..., list[str]]:
    """``causes(call, ratio, arms, places)``: of a call that takes 300 ns in the first arm."""

    def told(call: str, ratio: float, arms: list[str], *places: Environment) -> list[str]:
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 300 * NS * (1 + pair / 1e4) * (ratio if name == arms[1] else 1)
            return Measurement(
                batch_s=Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            )

        parameters = build("launch", {"call": call}).parameters()
        case = Case(primitive="launch", parameters=parameters, backend="numpy", device="cpu")
        (arm,) = compare(made_study(arms, [case], measured, environments=dict(zip(arms, places, strict=True)))).arms
        (explained,) = [each.explanation for each in arm.cases]
        assert explained is not None
        return [cause for cause in explained.causes if "seccomp filter looks" in cause]

    return told


def test_a_filter_that_makes_calls_dearer_is_named_with_the_setting_and_what_the_kernel_says(
    causes: Callable[..., list[str]], tmp_path: Path
) -> None:
    arm = f"docker:seccomp={tmp_path}/profile.json"
    told = (
        f"in {arm} a seccomp filter looks at getppid (seccomp={tmp_path}/profile.json, /proc/self/status: filter, 1 of "
        "them): a call takes 360 ns, and 300 ns in host"
    )
    assert [told] == causes("getppid", 1.2, ["host", arm], OPEN, FILTERED)
    assert [f"{told}; that makes a ratio of 1.4, no more"] == causes("getppid", 3.0, ["host", arm], OPEN, FILTERED)


def test_a_filter_is_named_where_the_baseline_has_another_one_and_where_the_baseline_has_it(
    causes: Callable[..., list[str]],
) -> None:
    (told,) = causes("getppid", 1.2, ["docker", "docker:seccomp=/p.json"], place("filter", 300 * NS, 1), FILTERED)
    assert "a call takes 360 ns, and 300 ns in docker" in told
    (told,) = causes("getppid", 0.8, ["docker", "docker:seccomp=unconfined"], FILTERED, OPEN)
    assert told.startswith("in docker a seccomp filter looks at getppid (/proc/self/status: filter, 1 of them): ")


@pytest.mark.parametrize(
    ("call", "ratio", "arms", "places"),
    [
        (
            "getppid",
            1.2,
            ["host", "docker"],
            (OPEN, place("filter", 301 * NS, 1)),
        ),  # the kernel remembers it as allowed
        ("getppid", 0.8, ["host", "docker:seccomp=/p.json"], (OPEN, FILTERED)),  # it works the other way
        ("ctypes", 1.2, ["host", "docker:seccomp=/p.json"], (OPEN, FILTERED)),  # no system call
        ("thread_wake", 1.2, ["host", "docker"], (OPEN, FILTERED)),  # a runtime's own profile
        ("getppid", 1.2, ["podman", "podman:cpus=1"], (FILTERED, FILTERED)),  # the same
    ],
)
def test_a_filter_is_no_cause(
    call: str, ratio: float, arms: list[str], places: tuple[Environment, ...], causes: Callable[..., list[str]]
) -> None:
    assert [] == causes(call, ratio, arms, *places)


def test_of_calls_that_workers_do_not_time_a_profile_of_ones_own_is_named_unless_it_leaves_them_out(
    causes: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert causes("thread_wake", 1.5, ["host", "podman:seccomp=/dev/zero"], OPEN, FILTERED), "it is not read"
    profile = tmp_path / "profile.json"
    arms = ["host", f"podman:seccomp={profile}"]
    (told,) = causes("thread_wake", 1.5, arms, OPEN, FILTERED)
    assert told.startswith(f"in {arms[1]} a seccomp filter looks at futex (seccomp={profile}, ")
    for default, names, count in (("ALLOW", "futex", 1), ("ALLOW", "getppid", 0), ("LOG", "getppid", 1)):
        profile.write_text(json.dumps({"defaultAction": f"SCMP_ACT_{default}", "syscalls": [{"names": [names]}]}))
        assert count == len(causes("thread_wake", 1.5, arms, OPEN, FILTERED))


@pytest.mark.parametrize(
    ("stopped", "metric", "cause"), [(1.0, "batch_s", "filters"), (40.0, "batch_mean_s", "cpu-quota")]
)
def test_a_filter_is_likely_for_what_each_call_takes_and_a_quota_for_what_few_samples_do(
    made_study: MadeStudy, stopped: float, metric: str, cause: str
) -> None:
    """Each call takes a fifth longer; beside that one in nine is stopped for some of them, or for 40."""

    def measured(name: str, case: Case, pair: int) -> Measurement:
        time_s = 300 * NS * (1 + pair / 1e4) * (1.2 if name == slow else 1)
        times_s = [time_s] * 8 + [time_s * (stopped if name == slow else 1)]
        host = HostReading(
            duration_s=1.0, cpu_time_s=0.5, voluntary_switches=1, involuntary_switches=1, throttled_s=0.0,
            quota_periods=10 * (name == slow), throttled_periods=0,
        )  # fmt: skip
        taken = Samples(samples_s=times_s, calls_per_sample=1, taken_by="", stopped="noise")
        return Measurement(batch_s=taken, host=host)

    slow = "docker:cpus=0.5"
    arms, places = ["host", slow], [OPEN, replace(FILTERED, limits=replace(HERE.limits, cpu_quota=0.5))]
    parameters = build("launch", {"call": "getppid"}).parameters()
    case = Case(primitive="launch", parameters=parameters, backend="numpy", device="cpu")
    study = made_study(arms, [case], measured, environments=dict(zip(arms, places, strict=True)))
    (found,) = compare(study).cases
    assert ("slower", metric) == (found.verdict, found.decided_by)
    assert found.explanation is not None
    assert cause == found.explanation.cause
    told = " ".join(found.explanation.causes)
    assert "a seccomp filter looks at getppid" in told
    assert ("makes a ratio of 1.4, no more" in told) == (cause == "cpu-quota")
    assert "quota" in told
