"""What differs between two places is named first where it slows a case or lets it fail, and else is not named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.compare.comparison import CaseComparison
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.difference import difference
from primbench.environment.fingerprint import Environment
from primbench.environment.reading import NOT_READ_YET
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.system.meaning import FactId

HERE = fingerprint.collect(gpus=False)
QUICK = {"mmap": 3e-6, "clone": 25e-6, "futex": 0.3e-6}
PROCESS = ("launch", {"call": "process_start"}, "numpy")
GETPPID = ("launch", {"call": "getppid"}, "numpy")
GELU = ("elementwise", {"op": "gelu", "elements": 2**20}, "torch")
PRODUCT = ("gemm", {"m": 64, "n": 64, "k": 64}, "numpy")
COPY = ("memcpy", {"bytes": 2**28}, "numpy")
INTERPRETER = ("startup", {"what": "interpreter"}, "numpy")
MARKED = ("host", "host:env.MARK=1,name=other")
MARK = "the variable MARK is set in other, which nothing is known to read"


def place(**groups: dict[str, Any]) -> Environment:
    return replace(HERE, **{name: replace(getattr(HERE, name), **fields) for name, fields in groups.items()})


@pytest.fixture
def compared(made_study: Callable[..., Results]) -> Callable[..., CaseComparison]:
    """``compared(what, one, other, ratio)``: a case that takes 1 ms in the first place, and ratio times that in the
    other one; there it fails with what ``ratio`` says where that is a text.
    """

    def of(
        what: tuple[str, dict[str, Any], str],
        one: Environment,
        other: Environment,
        ratio: float | str,
        algorithms: tuple[str, str] = ("", ""),
    ) -> CaseComparison:
        def measured(name: str, case: Case, pair: int) -> Measurement | str:
            if name == "other" and isinstance(ratio, str):
                return ratio
            time_s = 1e-3 * (1 + pair / 1e4) * (float(ratio) if name == "other" else 1)
            samples = Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=samples, algorithm=algorithms[name == "other"] or None)

        primitive, parameters, backend = what
        case = Case(
            primitive=primitive, parameters=build(primitive, parameters).parameters(), backend=backend, device="cpu"
        )
        study = made_study(MARKED, [case], measured, environments={"host": one, "other": other})
        (found,) = compare(study).cases
        return found

    return of


Compared = Callable[..., CaseComparison]


def causes(case: CaseComparison) -> list[str]:
    return [*(case.explanation.causes if case.explanation else [])]


def test_a_python_for_debuggers_is_named_before_its_file(compared: Compared) -> None:
    builds = ("GCC 12.2.0, optimization untold", "GCC 12.2.0, optimization untold, debug, -Og")
    one, other = (place(software={"python_build": build, "python_implementation": "cpython"}) for build in builds)
    programs = ("Python 3.11.2 of /usr/bin/python3.11", "Python 3.11.2 of /usr/bin/python3.11d")
    debug, file, mark = causes(compared(INTERPRETER, one, other, 2.0, programs))
    assert debug.startswith("in other alone: this Python was built for who debugs it (debug, -Og): ")
    assert (file.startswith("other files: "), MARK) == (True, mark)
    assert causes(compared(INTERPRETER, one, other, 30.0, programs))[-1].endswith("makes a ratio of 10, no more")
    assert [MARK] == causes(compared(INTERPRETER, other, other, 2.0))


def test_what_is_refused_is_named_where_a_case_fails_of_it(compared: Compared) -> None:
    one = place(confinement={"executable_pages": "allowed", "noexec": []}, limits={"data_bytes": None})
    no_pages = place(confinement={"executable_pages": "EACCES", "noexec": []}, limits={"data_bytes": None})
    said = "RuntimeError: could not create a primitive"
    assert ["executable_pages is allowed in host and EACCES in other"] == causes(compared(GELU, one, no_pages, said))
    assert [] == causes(compared(GELU, no_pages, no_pages, said))

    no_folder = place(
        confinement={"executable_pages": "allowed", "noexec": ["temporary files"]}, limits={"data_bytes": None}
    )
    said = "InductorError: OSError: /tmp/x.so: failed to map segment from shared object"
    assert ["noexec is none in host and temporary files in other"] == causes(compared(GELU, one, no_folder, said))

    little = place(confinement={"executable_pages": "allowed", "noexec": []}, limits={"data_bytes": 300 * 2**20})
    said = "MemoryError: Unable to allocate 256. MiB for an array"
    assert ["data_bytes is none in host and 300 MiB in other"] == causes(compared(COPY, one, little, said))


@pytest.mark.parametrize(
    "fields",
    [
        {"core_bytes": 0, "message_queue_bytes": 0, "signals_pending_max": 0, "nice_limit": 0, "resident_bytes": 0},
        {"realtime_priority_max": 0, "file_locks_max": 0, "realtime_limit_s": 1.0},
        {"data_bytes": 2**30},
    ],
)
def test_a_limit_that_makes_nothing_slower_is_not_named_where_something_is(
    compared: Compared, fields: dict[str, Any]
) -> None:
    known = {name: value for name, value in fields.items() if name in HERE.limits.__struct_fields__}
    one, other = place(limits=dict.fromkeys(known)), place(limits=known)
    assert [MARK] == causes(compared(PRODUCT, one, other, 1.5))


def test_slower_code_is_put_down_to_pages_that_may_not_be_executed_and_numpys_is_not(compared: Compared) -> None:
    one, other = (place(confinement={"executable_pages": each}) for each in ("allowed", "EACCES"))
    torch = ("gemm", {"m": 64, "n": 64, "k": 64}, "torch")
    assert causes(compared(torch, one, other, 16.0))[0].startswith("memory that may not be executed: ")
    assert [MARK] == causes(compared(PRODUCT, one, other, 16.0))


def test_a_system_call_that_alone_is_dear_is_named_of_what_makes_it(compared: Compared) -> None:
    one, other = (
        place(confinement={"system_call_s": 0.2e-6, "calls_s": QUICK | more}) for more in ({}, {"mmap": 7e-5})
    )
    costs = (
        "the system call mmap takes 70.0 us in other and 3.00 us in host: what slows them cannot be seen from inside"
    )
    assert causes(compared(PROCESS, one, other, 1.7))[0].startswith(costs)
    assert "takes 70.0 us in host and 3.00 us in other: " in causes(compared(PROCESS, other, one, 1 / 1.7))[0]
    assert [MARK] == causes(compared(GETPPID, one, other, 1.7)), "which makes no such call"
    wavering = place(confinement={"system_call_s": 0.2e-6, "calls_s": QUICK | {"mmap": 4.5e-6}})
    assert [MARK] == causes(compared(PROCESS, one, wavering, 1.7)), "as readings of one place are apart"


def test_who_looks_at_that_call_is_named(compared: Compared) -> None:
    one, other = (
        place(confinement={"system_call_s": 0.2e-6, "calls_s": QUICK | more}) for more in ({}, {"mmap": 7e-5})
    )
    traced = replace(other, confinement=replace(other.confinement, tracer="42 (strace)"))
    assert causes(compared(PROCESS, one, traced, 1.7))[0].endswith("traced by process 42 (strace)")
    mark, short, *_ = causes(compared(PROCESS, one, other, 1e4))
    assert MARK == mark
    assert short.startswith("the system call mmap takes 70.0 us in other and 3.00 us in host: ")
    assert " that makes a ratio of " in short
    slow_tracer = causes(compared(PROCESS, one, traced, 1e4))[0]
    assert slow_tracer.endswith("traced by process 42 (strace)"), "it may be asked of another CPU than at the start"
    filtered = replace(other, confinement=replace(other.confinement, seccomp="filter", seccomp_filters=4))
    assert causes(compared(PROCESS, one, filtered, 1.7))[0].endswith("filters of system calls are others there")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"thread_cpus": {"0": 3}}, "other CPUs of single threads: thread_cpus.0 is none in host and 3 in other"),
        (
            {"thread_niceness": {"19": 3}},
            "another priority of single threads: thread_niceness.19 is none in host and 3",
        ),
        ({"thread_scheduling": {"idle": 1}}, "another priority of single threads: thread_scheduling.idle is none in"),
    ],
)
def test_threads_apart_are_named_where_what_computes_is_slower_and_never_where_it_is_faster(
    compared: Compared, fields: dict[str, Any], words: str
) -> None:
    usual: dict[str, Any] = {"thread_cpus": {}, "thread_niceness": {}, "thread_scheduling": {}}
    one, other = place(limits=usual), place(limits=usual | fields)
    assert causes(compared(PRODUCT, one, other, 1.5))[0].startswith(words)
    assert [MARK] == causes(compared(PRODUCT, one, other, 0.6))
    assert [MARK] == causes(compared(GETPPID, one, other, 1.5)), "which has one thread"


def test_what_an_older_file_does_not_have_is_unknown_and_no_difference() -> None:
    fields = {
        "limits": ("thread_cpus", "thread_niceness", "thread_scheduling", "realtime_limit_s", "data_bytes"),
        "confinement": ("executable_pages", "noexec", "calls_s"),
    }
    recorded = msgspec.to_builtins(HERE)
    for group, names in fields.items():
        for name in names:
            del recorded[group][name]
    older = msgspec.convert(recorded, Environment)
    found = difference(older, HERE)
    changes = {change.field: change for layer in (found.limits, found.confinement) for change in layer.changes}
    ids = [FactId(group, name) for group, names in fields.items() for name in names]
    assert {NOT_READ_YET} == {changes[each].reason for each in ids if each in changes}
    assert not [each for each in ids if each in changes and changes[each].kind == "differs"]
