"""Causes by what differs: which cases each can touch, which way and how far, and which comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, Explanation
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
PRODUCT = ("gemm", {"m": 64, "n": 64, "k": 64})
CALL, PROGRAM = (("launch", {"call": call}) for call in ("dispatch", "process_start"))
COPY = ("memcpy", {"bytes": 4096, "direction": "h2h"})


def place(**changes: Any) -> Environment:
    """Here, but for fields by group."""
    groups = {group: replace(getattr(HERE, group), **fields) for group, fields in changes.items()}
    return replace(HERE, **groups)


def with_variables(*libraries: str, **variables: str) -> Environment:
    loaded = {name: [Library(path=f"/usr/lib/{name}.so", build_id="aa")] for name in ("libc", *libraries)}
    return place(software={"libraries": loaded, "variables": variables, "threads": None})


@pytest.fixture
def arm(made_study: MadeStudy) -> Callable[..., ArmComparison]:
    """``arm(what, ratio, one, other, ...)``: of one case. call_s: what a call takes. rare: it is so but one time in
    four, which no median shows.
    """

    def compared(
        what: tuple[str, dict[str, Any]], ratio: float, one: Environment, other: Environment, *,
        backend: str = "numpy", call_s: float = 1e-6, rare: bool = False,
        arms: Sequence[str] = ("host:name=one", "host:name=other"),
    ) -> ArmComparison:  # fmt: skip
        def measured(name: str, case: Case, pair: int) -> Measurement:
            usual_s = call_s * (1 + pair / 1e4)
            slow_s = usual_s * (ratio if name == "other" else 1)
            times_s = [slow_s if index % 4 == 0 or not rare else usual_s for index in range(12)]
            return Measurement(batch_s=Samples(samples_s=times_s, calls_per_sample=1, taken_by="", stopped="noise"))

        primitive, parameters = what
        case = Case(
            primitive=primitive, parameters=build(primitive, parameters).parameters(), backend=backend, device="cpu"
        )
        study = made_study(arms, [case], measured, environments={"one": one, "other": other})
        (found,) = compare(study).arms
        return found

    return compared


@pytest.fixture
def explained(arm: Callable[..., ArmComparison]) -> Callable[..., Explanation]:
    def of(*arguments: Any, **options: Any) -> Explanation:
        (case,) = arm(*arguments, **options).cases
        assert case.explanation is not None
        return case.explanation

    return of


@pytest.fixture
def causes(explained: Callable[..., Explanation]) -> Callable[..., list[str]]:
    """What is named, each up to its colon."""

    def of(*arguments: Any, **options: Any) -> list[str]:
        return [words.partition(":")[0] for words in explained(*arguments, **options).causes]

    return of


Causes = Callable[..., list[str]]


def test_what_pins_threads_comes_before_the_cpus_that_it_leaves_them(causes: Causes) -> None:
    one = with_variables("libgomp")
    one = replace(one, limits=replace(one.limits, cpus_allowed=[0, 1]))
    other = with_variables("libgomp", OMP_PROC_BIND="true")
    other = replace(other, limits=replace(other.limits, cpus_allowed=[0]))
    assert ["threads pinned otherwise", "fewer CPUs in other"] == causes(PRODUCT, 9.0, one, other, backend="torch")
    assert ["fewer CPUs in other"] == causes(CALL, 2.0, one, other, backend="torch"), "which no second thread does"


def test_what_a_check_finds_beside_it_leaves_a_difference_as_it_is(causes: Causes) -> None:
    one = place(limits={"cpus_allowed": [0, 1], "cpu_quota": None}, software={"threads": None})
    other = replace(one, limits=replace(one.limits, cpus_allowed=[0], cpu_quota=0.5))
    assert ["fewer CPUs in other", "in other alone"] == causes(PRODUCT, 4.0, one, other)


def test_what_no_library_reads_is_no_cause_and_makes_no_other_stack(
    arm: Callable[..., ArmComparison], explained: Callable[..., Explanation]
) -> None:
    one, other = with_variables(), with_variables(NUMBA_OPT="0")
    asked = ["host:name=one", "host:env.NUMBA_OPT=0,name=other"]
    pinned = with_variables(), with_variables(GOMP_CPU_AFFINITY="0")
    assert [] == explained(PRODUCT, 1.5, *pinned).causes, "though the doctor warns of it"
    assert [] == explained(PRODUCT, 1.5, one, other, arms=asked).causes
    found = arm(PRODUCT, 1.5, one, other)
    assert "place effect" == found.effect
    assert [("NUMBA_OPT is none in one and 0 in other", False)] == [
        (each.words, each.is_known) for each in found.differing
    ]
    loaded = with_variables("numba/_dispatcher"), with_variables("numba/_dispatcher", NUMBA_OPT="0")
    assert "other code for the CPU: NUMBA_OPT" == explained(PRODUCT, 1.5, *loaded, backend="numba").likely


@pytest.mark.parametrize(("what", "named"), [(PRODUCT, ["other code for the CPU"]), (CALL, []), (COPY, [])])
def test_other_code_for_products_touches_nothing_else(
    causes: Causes, what: tuple[str, dict[str, Any]], named: list[str]
) -> None:
    names = "libscipy_openblas64_"
    assert named == causes(what, 4.0, with_variables(names), with_variables(names, OPENBLAS_CORETYPE="Prescott"))


def test_what_is_added_to_each_call_cannot_make_a_long_one_much_longer(explained: Callable[..., Explanation]) -> None:
    one, other = with_variables(), with_variables(PYTHONTRACEMALLOC="5")
    assert "other settings of Python: PYTHONTRACEMALLOC" == explained(CALL, 10.0, one, other).likely
    long = explained(PRODUCT, 1.5, one, other, call_s=0.01)
    assert (None, True) == (long.likely, long.causes[0].endswith("; that makes a ratio of 1.01, no more"))
    assert [] == explained(CALL, 0.5, one, other).causes, "nobody counts memory to be faster"


def test_a_slow_reading_is_no_cause_of_what_makes_all_slow(
    causes: Causes, explained: Callable[..., Explanation]
) -> None:
    """As of the clock, and of a system call, by an interpreter that notes where all memory comes from."""
    one, other = with_variables(), with_variables(PYTHONTRACEMALLOC="5")
    quick, slow = (replace(HERE.machine, clocksource="tsc", clock_s=clock_s) for clock_s in (4e-8, 1.6e-6))
    places = replace(one, machine=quick), replace(other, machine=slow)
    assert ["other settings of Python", "in other alone"] == causes(CALL, 9.0, *places)
    hpet = place(machine={"clocksource": "tsc"}), place(machine={"clocksource": "hpet", "clock_s": 4e-6})
    assert "the clock is read from hpet, at 4.00 us a reading, in other alone" == explained(CALL, 1.06, *hpet).likely
    long = explained(CALL, 9.0, *hpet)
    assert (None, True) == (long.likely, "no more" in long.causes[0]), "which is read once for all calls of a batch"


def test_what_stops_threads_comes_first_where_only_the_mean_moved(causes: Causes) -> None:
    one = place(machine={"transparent_hugepage": "always"}, limits={"niceness": 0, "memory_limit_bytes": None})
    other = place(machine={"transparent_hugepage": "madvise"}, limits={"niceness": 19})
    kernel = replace(one, machine=replace(one.machine, kernel="5.4.0")), other
    assert ["another Linux", "another priority", "other huge pages"] == causes(PRODUCT, 1.6, *kernel)
    assert ["another priority", "another Linux", "other huge pages"] == causes(PRODUCT, 3.0, *kernel, rare=True)


def test_a_folder_of_an_arm_is_a_cause_though_no_field_shows_it(
    arm: Callable[..., ArmComparison], explained: Callable[..., Explanation]
) -> None:
    read, asked = ("files", {"bytes": 4096, "what": "small"}), ["host:name=one", "host:tmpfs=/data,name=other"]
    told = "tmpfs is not set in one and /data in other"
    assert [f"other file systems: {told}"] == explained(read, 0.5, HERE, HERE, arms=asked).causes
    assert [] == explained(CALL, 0.5, HERE, HERE, arms=asked).causes
    assert [(told, True)] == [(each.words, each.is_known) for each in arm(CALL, 1, HERE, HERE, arms=asked).differing]


def test_loading_data_is_touched_by_what_files_are_and_by_what_the_cpu_is(
    explained: Callable[..., Explanation], causes: Causes
) -> None:
    read = ("files", {"bytes": 4096, "what": "small"})
    mounted = [place(confinement={"filesystems": {"home": kind}}) for kind in ("ext4 on /", "9p on /home")]
    assert (["data loading"], "other file systems") == (
        explained(read, 1.3, *mounted).parts,
        causes(read, 1.3, *mounted)[0],
    )
    slow = [place(machine={"clocksource": source, "clock_s": 2e-6}) for source in ("tsc", "hpet")]
    assert ["in other alone"] == causes(read, 1.3, *slow)


def test_a_limit_that_nobody_reaches_and_the_place_of_a_mount_are_no_causes(causes: Causes) -> None:
    one = place(limits={"processes_max": None, "open_files": 20_000})
    other = place(limits={"processes_max": 2048, "open_files": 2**20})
    mounted = [
        replace(each, confinement=replace(HERE.confinement, filesystems={"Python": where}))
        for each, where in ((one, "ext4 on /"), (other, "ext4 on /opt"))
    ]
    assert [] == causes(PROGRAM, 1.3, *mounted)


def test_a_call_that_starts_a_program_is_touched_by_what_start_up_is(causes: Causes) -> None:
    mounted = [place(confinement={"filesystems": {"Python": kind}}) for kind in ("ext4 on /", "overlay on /")]
    assert ["other file systems"] == causes(PROGRAM, 1.3, *mounted)
    assert [] == causes(CALL, 1.3, *mounted)


@pytest.mark.parametrize(
    ("what", "ratio", "causes_first"),
    [
        ("mmap", 2.5, ["other file systems"]),  # pages that are touched make no system calls
        ("small", 1.06, ["other filters of system calls", "other file systems"]),
        ("small", 1.25, ["other file systems"]),
    ],
)
def test_filters_cost_no_more_than_their_system_calls(
    causes: Causes, what: str, ratio: float, causes_first: list[str]
) -> None:
    """With a cheap call of 264 ns and one of 290 ns."""
    files = ("files", {"bytes": 114_660, "what": what, "files": 200})
    one: dict[str, Any] = {"seccomp": "disabled", "seccomp_filters": 0, "system_call_s": 264e-9}
    other: dict[str, Any] = {"seccomp": "filter", "seccomp_filters": 1, "system_call_s": 290e-9}
    one["filesystems"], other["filesystems"] = ({"temporary files": kind} for kind in ("ext4 on /", "overlay on /"))
    found = causes(files, ratio, place(confinement=one), place(confinement=other), call_s=2.7e-3)
    assert causes_first == found[: len(causes_first)]
    assert "other file systems" in found


def test_folders_that_are_looked_through_for_libraries_touch_what_starts_programs(
    explained: Callable[..., Any],
) -> None:
    arms = ("host:name=one", "host:env.LD_LIBRARY_PATH=/a,name=other")
    told = [explained(what, 1.5, HERE, HERE, arms=arms).causes for what in (PROGRAM, CALL)]
    assert [["the variable LD_LIBRARY_PATH is set in other"], []] == told


FILES = ("files", {"bytes": 4096, "what": "small", "files": 10})
SET = ("host:env.MINE=1,name=one", "host:env.MINE=2,name=other")
OF_MINE = "the variable MINE is set in one and otherwise in other, which nothing is known to read"


@pytest.mark.parametrize(
    ("what", "reading"), [(FILES, {"open_temporary_s": 40e-6}), (CALL, {"interruptions_hz": 15_000.0})]
)
def test_what_was_read_comes_before_a_variable_of_which_nothing_is_known(
    causes: Causes, what: tuple[str, dict[str, Any]], reading: dict[str, float]
) -> None:
    one = place(confinement={"open_file_s": 2e-6, "open_temporary_s": 2e-6, "interruptions_hz": 0.0})
    other = replace(one, confinement=replace(one.confinement, **reading))
    assert ["in other alone", OF_MINE] == causes(what, 1.5, one, other, arms=SET)
    assert [OF_MINE] == causes(what, 1.5, other, other, arms=SET)


def test_threads_of_other_code_come_before_the_code_that_started_them(causes: Causes) -> None:
    one = place(software={"start_code": {}, "other_threads": []})
    other = place(software={"start_code": {"sitecustomize": "ab"}, "other_threads": ["telemetry"]})
    for rare in (False, True):
        found = causes(CALL, 2.0, one, other, rare=rare)
        assert ["other threads of Python", "other code at Python's start"] == found


def test_a_library_that_both_preload_is_no_cause_wherever_its_copies_lie(causes: Causes) -> None:
    one, other = (
        place(software={"preloads": {"LD_PRELOAD": [Library(path=f"/tmp/{folder}/libx.so", build_id="aa")]}})
        for folder in ("primbench-1", "primbench-2")
    )
    assert [OF_MINE] == causes(CALL, 2.0, one, other, arms=SET)


WAKE = ("launch", {"call": "thread_wake"})
NO_MORE = "; that makes a ratio of "


@pytest.mark.parametrize(
    ("field", "values", "cause"),
    [
        ("access_times", ({"temporary files": "relatime"}, {"temporary files": "strictatime"}), "other access times"),
        ("temporary_steps", (1, 5), "another way to temporary files"),
    ],
)
def test_what_each_file_costs_is_a_cause_where_many_are_opened(
    explained: Callable[..., Explanation], field: str, values: tuple[Any, Any], cause: str
) -> None:
    one, other = (place(confinement={field: each, "filesystems": {}}) for each in values)
    assert cause == explained(FILES, 1.3, one, other, call_s=100e-6).likely
    large = ("files", {"bytes": 2**24, "what": "read"})
    (told,) = explained(large, 1.3, one, other, call_s=1e-3).causes
    assert told.startswith(cause)
    assert NO_MORE in told


def test_noting_a_read_once_a_day_or_never_is_no_difference(causes: Causes) -> None:
    one, other = (place(confinement={"access_times": {"home": how}}) for how in ("relatime", "noatime"))
    assert [] == causes(FILES, 1.3, one, other, call_s=100e-6)


def test_control_groups_one_within_the_other_make_waking_longer_by_so_much_each(
    explained: Callable[..., Explanation],
) -> None:
    usual, near, deep = (place(limits={"cpu_group_depth": depth}) for depth in (1, 3, 31))
    assert "other control groups of CPU time" == explained(WAKE, 2.0, usual, deep).likely
    (told,) = explained(WAKE, 2.0, usual, near).causes
    assert told.endswith(f"{NO_MORE}1.2, no more")
    assert [] == explained(WAKE, 0.5, usual, deep).causes
    assert [] == explained(CALL, 2.0, usual, deep).causes, "which puts nobody to sleep"
    unknown = place(limits={"cpu_group_depth": None})
    assert [] == explained(WAKE, 2.0, unknown, deep).causes, "as an older primbench leaves it"
