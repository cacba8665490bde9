"""What others changed of a place after its workers had told of it: by made records, and of this process for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import Explanation
from primbench.compare.pairs import compare
from primbench.environment import fingerprint
from primbench.environment.confinement import Confinement
from primbench.environment.later import Later, later
from primbench.environment.limits import Limits
from primbench.environment.reading import group_of
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import MOVED, HostReading
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.system.meaning import facts_of

HERE = fingerprint.collect(gpus=False)
USUAL = replace(
    HERE,
    limits=replace(
        HERE.limits,
        cpus_allowed=[0, 1],
        cpu_quota=None,
        niceness=0,
        memory_limit_bytes=None,
        cpu_weight=None,
        io_limits=[],
    ),
    confinement=replace(
        HERE.confinement, tracer="none", interruptions_hz=0.0, open_temporary_s=1e-6, io_uring="allowed"
    ),
)


def case(primitive: str, **parameters: Any) -> Case:
    problem = build(primitive, parameters)
    return Case(primitive=primitive, parameters=problem.parameters(), backend="numpy", device="cpu")


GEMM = case("gemm", m=64, n=64, k=64)
READ = case("files", bytes=2**20, what="read", access="direct")


def changed(**fields: Any) -> Later:
    limits = {name: value for name, value in fields.items() if hasattr(HERE.limits, name)}
    others = {name: value for name, value in fields.items() if name not in limits}
    return Later(limits=replace(USUAL.limits, **limits), confinement=replace(USUAL.confinement, **others))


@pytest.fixture
def explained(made_study: Callable[..., Results]) -> Callable[..., Explanation]:
    """``explained(case, later)``: of the arm "other", which takes twice as long as "one". later: arm -> its change."""

    def of(what: Case, found: dict[str, Later], ratio: float = 2.0, host: HostReading | None = None) -> Explanation:
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 1e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            timed = Samples(samples_s=[time_s] * 7, calls_per_sample=1, taken_by="", stopped="noise")
            return Measurement(batch_s=timed, host=host if name == "other" else None)

        arms = ["host:name=one", "host:name=other"]
        places = {"one": USUAL, "other": USUAL}
        study = made_study(arms, [what], measured, pairs=4, environments=places, later=found)
        (found_case,) = compare(study).arms[0].cases
        assert found_case.explanation is not None
        return found_case.explanation

    return of


Explained = Callable[..., Explanation]


@pytest.mark.parametrize(
    ("what", "change", "cause"),
    [
        (GEMM, {"niceness": 19}, "another priority"),
        (GEMM, {"scheduling": "idle"}, "another priority"),
        (GEMM, {"cpu_weight": 1}, "another priority"),
        (GEMM, {"cpus_allowed": [0]}, "fewer CPUs in other"),
        (GEMM, {"memory_limit_bytes": 2**20}, "other memory"),
        (READ, {"io_limits": ["8:0 rbps=1048576"]}, "in other alone: reading or writing is limited"),
    ],
)
def test_what_was_limited_after_a_start_is_named_as_what_was_limited_from_it(
    explained: Explained, what: Case, change: dict[str, Any], cause: str
) -> None:
    found = explained(what, {"other": changed(**change)})
    assert found.causes[0].startswith(f"{cause}: "), found.causes
    assert any("once it was timed in other" in each for each in found.evidence)
    assert not explained(what, {"one": changed(**change), "other": changed(**change)}).causes, "which both have"


def test_a_quota_and_a_tracer_that_came_later_are_told_by_the_doctor(explained: Explained) -> None:
    found = explained(GEMM, {"other": changed(cpu_quota=0.5, cpu_period_s=0.1)})
    assert "the CPU quota grants 0.5" in found.causes[0]
    slow = explained(READ, {"other": changed(open_temporary_s=2e-3)})
    assert "opening a temporary file takes 2.00 ms: a scanner" in slow.causes[0]
    often = explained(GEMM, {"other": changed(interruptions_hz=20000.0)})
    assert "is interrupted 20000 times a second" in often.causes[0]
    assert "4242 (strace)" in explained(GEMM, {"other": changed(tracer="4242 (strace)")}).causes[0]


def test_io_uring_that_is_refused_slows_nothing_that_reads_without_it(explained: Explained) -> None:
    refused = {"other": changed(io_uring="ENOSYS")}
    assert [] == explained(READ, refused).causes
    ring = case("files", bytes=2**20, what="read", access="io_uring")
    assert "io_uring" in explained(ring, refused).causes[0]


def test_of_a_process_that_was_moved_its_limits_there_tell_more(explained: Explained) -> None:
    moved = HostReading(
        duration_s=1.0, cpu_time_s=1.0, voluntary_switches=0, involuntary_switches=0, missing={"throttled_s": MOVED}
    )
    assert "were moved to another control group" in explained(GEMM, {}, host=moved).causes[0]
    assert explained(GEMM, {"other": changed(cpu_weight=1)}, host=moved).causes[0].startswith("another priority")


def test_a_process_tells_what_changed_of_its_place_and_nothing_where_nothing_did() -> None:
    code = (
        "import os\n"
        "from primbench.environment import fingerprint\n"
        "from primbench.environment.later import later\n"
        "told = fingerprint.collect(gpus=False)\n"
        "assert later(told) is None, later(told)\n"
        "os.nice(3)\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "found = later(told)\n"
        "print(found.limits.niceness, found.limits.cpus_allowed, found.of(told).limits == found.limits)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert f"{os.getpriority(os.PRIO_PROCESS, 0) + 3} [{min(os.sched_getaffinity(0))}] True\n" == done.stdout, (
        done.stderr
    )


@pytest.mark.parametrize(("counts", "is_told"), [([9000.0, 0.0], False), ([9000.0] * 3, True)])
def test_what_the_next_look_does_not_see_has_not_changed(
    counts: list[float], is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, confinement = group_of(Limits, Path("/")), replace(HERE.confinement, interruptions_hz=0.0)
    quiet = replace(HERE, limits=limits, confinement=confinement)
    counted = iter(counts)
    declared = facts_of(Confinement)["interruptions_hz"]
    made = {"interruptions_hz": declared._replace(read=lambda _: next(counted))}
    monkeypatch.setattr("primbench.environment.later._again", lambda: {"confinement": made, "limits": {}})
    assert is_told == (later(quiet) is not None)
    assert next(counted, None) is None, "as many looks as it takes, and no more"


def test_files_of_a_case_are_opened_where_that_has_them(tmp_path: Path) -> None:
    quick = replace(HERE, confinement=replace(HERE.confinement, open_temporary_s=-1.0))
    found = later(quick, str(tmp_path))
    assert found is not None
    assert (found.confinement.open_temporary_s or 0) > 0
    assert later(quick, str(tmp_path / "nosuch")) is not None, "and elsewhere where no file can be opened there"
    assert str(tmp_path) == build("files", {"bytes": 4096, "what": "small", "path": str(tmp_path)}).folder()
    assert build("files", {"bytes": 4096, "what": "small"}).folder() is None
    disk = {"network": "alexnet", "data": "disk", "data_folder": str(tmp_path)}
    assert str(tmp_path) == build("model", disk).folder()
