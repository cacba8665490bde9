"""System calls that take longer in one place: a cause of what is made of them, with who is seen to look at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import Comparison, Explanation
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.report.headline import headline
from primbench.results.file import Results
from primbench.spec.case import Case

HERE = fingerprint.collect(gpus=False)
US = 1e-6
GETPPID = ("launch", {"call": "getppid"})
WAKE = ("launch", {"call": "thread_wake"})
SMALL = ("files", {"bytes": 4096, "what": "small", "files": 10})
PRODUCT = ("gemm", {"m": 64, "n": 64, "k": 64})
MARKED = ("host", "host:env.MARK=1,name=slow")
UNSEEN = "what slows them cannot be seen from inside (a tracer, audit or a filter)"
COSTS = "system calls, which take 61.0 us in slow and 570 ns in host"


def place(call_s: float | None, tracer: str = "none", **fields: Any) -> Environment:
    told = {"seccomp": "disabled", "seccomp_filters": 0, "watchers": [], "system_call_s": call_s, "tracer": tracer}
    return replace(HERE, confinement=replace(HERE.confinement, **told | fields))


QUICK = place(0.57 * US)


@pytest.fixture
def compared(made_study: Callable[..., Results]) -> Callable[..., Comparison]:
    """``compared(what, ratio, one, other)``: of a case that takes 1 us in the first arm. slow: the loops beside it."""

    def of(
        what: tuple[str, dict[str, Any]], ratio: float, *places: Environment,
        arms: tuple[str, str] = MARKED, slow: float = 1.0,
    ) -> Comparison:  # fmt: skip
        def measured(name: str, case: Case, pair: int) -> Measurement:
            is_arm = name != "host"
            time_s = US * (1 + pair / 1e4) * (ratio if is_arm else 1)
            loops_s = [(index, 25 * US * (slow if is_arm else 1)) for index in range(9)]
            return Measurement(
                batch_s=Samples(
                    samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise", loops_s=loops_s
                )
            )

        primitive, parameters = what
        parameters = build(primitive, parameters).parameters()
        case = Case(primitive=primitive, parameters=parameters, backend="numpy", device="cpu")
        environments = dict(zip(("host", "slow"), places, strict=True))
        return compare(made_study(arms, [case], measured, environments=environments))

    return of


Compared = Callable[..., Comparison]


def explanation(comparison: Comparison) -> Explanation:
    (case,) = comparison.cases
    assert case.explanation is not None
    return case.explanation


def test_a_measured_system_call_comes_before_a_variable_that_nothing_reads(compared: Compared) -> None:
    found = compared(GETPPID, 60.0, QUICK, place(61 * US))
    assert f"{COSTS}: {UNSEEN}" == explanation(found).likely
    cause, of_mark = explanation(found).causes
    assert f"system calls take {COSTS.partition('take ')[2]}: {UNSEEN}" == cause
    assert "the variable MARK is set in slow, which nothing is known to read" == of_mark
    assert headline(found).endswith(f"likely {COSTS}: {UNSEEN}.")


@pytest.mark.parametrize("what", [GETPPID, WAKE, SMALL])
@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({"tracer": "42 (strace)"}, "traced by process 42 (strace)"),
        (
            {"watchers": ["43 (perf)", "44 (bpftrace)"]},
            "events of the kernel are watched by process 43 (perf) and 1 more",
        ),
        ({"tracer": "42 (gdb)", "watchers": ["43 (perf)"]}, "traced by process 42 (gdb)"),
    ],
)
def test_who_is_seen_to_look_at_each_call_is_named_of_whatever_is_made_of_them(
    what: tuple[str, dict[str, Any]], fields: dict[str, Any], who: str, compared: Compared
) -> None:
    told = explanation(compared(what, 60.0, QUICK, place(61 * US, **fields)))
    assert f"{COSTS}: {who}" == told.likely
    assert 2 == len(told.causes), "once, with what was measured; and the variable"


def test_a_library_before_all_others_may_be_what_slows_calls_and_nobody_unseen_is_blamed(compared: Compared) -> None:
    preloads = {"LD_PRELOAD": [Library(path="/opt/libcalls.so")]}
    slow = replace(place(61 * US), software=replace(HERE.software, preloads=preloads))
    quick = replace(QUICK, software=replace(HERE.software, preloads={}))
    told = explanation(compared(GETPPID, 60.0, quick, slow, arms=("host", "host:preload=/opt/libcalls.so,name=slow")))
    assert f"{COSTS}: they may go through libcalls.so, loaded before all other libraries" == told.likely
    both = compared(GETPPID, 60.0, replace(QUICK, software=slow.software), slow)
    assert f"{COSTS}: {UNSEEN}" == explanation(both).likely, "which the quick ones have, too"


def test_of_the_baseline_it_is_told_the_other_way_round(compared: Compared) -> None:
    assert (explanation(compared(GETPPID, 1 / 60, place(61 * US), QUICK)).likely or "").startswith(
        "system calls, which take 61.0 us in host and 570 ns in slow: "
    )
    assert explanation(compared(GETPPID, 60.0, place(61 * US), QUICK)).likely is None


@pytest.mark.parametrize(
    ("what", "ratio", "places", "slow"),
    [
        (PRODUCT, 60.0, (QUICK, place(61 * US)), 1.0),  # makes none
        (GETPPID, 60.0, (QUICK, place(1.0 * US)), 1.0),  # no more than readings of one place differ
        (GETPPID, 3.0, (QUICK, place(1.6 * US)), 1.5),  # on a slower CPU
        (GETPPID, 60.0, (QUICK, place(None)), 1.0),  # unknown
        (GETPPID, 60.0, (QUICK, place(61 * US, seccomp="filter", seccomp_filters=1)), 1.0),  # as its own rule tells
    ],
)
def test_system_calls_are_no_cause(
    what: tuple[str, dict[str, Any]], ratio: float, places: tuple[Environment, Environment], slow: float,
    compared: Compared,
) -> None:  # fmt: skip
    told = explanation(compared(what, ratio, *places, slow=slow))
    assert not [each for each in told.causes if each.startswith("system calls take")]


def test_too_dear_to_be_all_of_it_is_told_as_too_little(compared: Compared) -> None:
    told = explanation(compared(GETPPID, 500.0, QUICK, place(61 * US)))
    assert told.causes[-1].endswith("; that makes a ratio of 303, no more")
    assert told.likely is None


def test_a_filter_that_hands_calls_to_a_program_is_told_as_a_filter(compared: Compared) -> None:
    told = explanation(compared(GETPPID, 60.0, QUICK, place(61 * US, seccomp="filter", seccomp_filters=1)))
    assert "the seccomp filter in slow" == told.likely


def test_where_no_cause_is_known_the_headline_says_so_and_what_the_arms_were_asked(compared: Compared) -> None:
    found = compared(PRODUCT, 1.5, QUICK, QUICK)
    assert headline(found).endswith("; no known cause; the arms were only asked to differ in MARK.")
    assert ["the variable MARK is set in slow, which nothing is known to read"] == explanation(found).causes
    more = compared(PRODUCT, 1.5, QUICK, QUICK, arms=("host", "host:env.MARK=1,env.PYTHONHASHSEED=7,name=slow"))
    assert headline(more).endswith("; no known cause; the arms were only asked to differ in MARK and PYTHONHASHSEED.")
    also = compared(PRODUCT, 1.5, QUICK, QUICK, arms=("host", "host:env.MARK=1,threads=1,name=slow"))
    assert "only asked" not in headline(also), "threads, too"


READ = {"OPENBLAS_MARK": "libopenblas", "OMP_DYNAMIC": "libgomp", "PYTHONVERBOSE": "libc"}
UNREAD = {"OPENBLAS_MARK": "libmkl", "OMP_MARK": "libgomp", "MALLOC_MARK": "libc"}


@pytest.mark.parametrize(("loaded", "is_likely"), [(READ, True), (UNREAD, False)])
def test_a_variable_is_likely_where_a_library_that_is_loaded_is_known_to_read_it(
    loaded: dict[str, str], is_likely: bool, compared: Compared
) -> None:
    for name, library in loaded.items():
        places = [
            replace(QUICK, software=replace(HERE.software, libraries={library: []}, variables=variables))
            for variables in ({}, {name: "1"})
        ]
        what = ("startup", {"what": "interpreter"}) if name.startswith("PYTHON") else PRODUCT
        found = compared(what, 1.5, *places, arms=("host", f"host:env.{name}=1,name=slow"))
        assert is_likely == bool(explanation(found).likely), (name, explanation(found))
        assert is_likely == ("no known cause" not in headline(found)), name
