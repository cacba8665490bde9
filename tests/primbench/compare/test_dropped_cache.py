"""Files that one place has in memory and the other has to read: by what each case's process read from disks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading
from primbench.registry import build
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.system import page_cache
from primbench.timing import host_counters

MadeStudy = Callable[..., Results]
Read = tuple[int | None, int | None]
Causes = Callable[..., list[str]]

FILES = ("files", {"bytes": 2**24, "what": "read"})
START = ("startup", {"what": "numpy"})
CALL = ("launch", {"call": "getppid"})
MUCH = 2**30
DROPPED = "files that are not in memory in {}: 512 MiB a second come from its disks while it is timed"


@pytest.fixture
def causes(made_study: MadeStudy) -> Causes:
    """``causes(what, ratio, one, other)``: bytes that were read in 2 s, and that had been in memory before."""

    def told(what: tuple[str, dict[str, Any]], ratio: float, one: Read, other: Read) -> list[str]:
        def measured(name: str, case: Case, pair: int) -> Measurement:
            time_s = 2e-3 * (1 + pair / 1e4) * (ratio if name == "other" else 1)
            read, reread = other if name == "other" else one
            return Measurement(
                batch_s=Samples(samples_s=[time_s] * 9, calls_per_sample=1, taken_by="", stopped="noise"),
                host=HostReading(
                    duration_s=2.0, cpu_time_s=1.0, voluntary_switches=0, involuntary_switches=0,
                    read_bytes=read, reread_bytes=reread,
                ),
            )  # fmt: skip

        primitive, parameters = what
        of_case = build(primitive, parameters).parameters()
        case = Case(primitive=primitive, parameters=of_case, backend="numpy", device="cpu")
        (arm,) = compare(made_study(["host:name=one", "host:name=other"], [case], measured)).arms
        explanation = arm.cases[0].explanation
        return [each for each in explanation.causes if "in memory" in each] if explanation else []

    return told


@pytest.mark.parametrize("what", [FILES, START])
def test_files_that_one_place_reads_from_disks_are_named(causes: Causes, what: tuple[str, dict[str, Any]]) -> None:
    (told,) = causes(what, 5.0, (0, 0), (MUCH, 0))
    assert told.startswith(DROPPED.format("other"))
    assert told.endswith("something has them dropped from the page cache, or they were not read before")
    (told,) = causes(what, 0.2, (MUCH, MUCH), (0, 0))
    assert told.startswith(DROPPED.format("one"))
    assert told.endswith("the kernel had taken them out of the page cache, for want of memory")
    (told,) = causes(what, 5.0, (0, None), (MUCH, None))
    assert told.endswith("whether the kernel took them out of the page cache is not known")


def test_files_that_both_read_from_disks_or_have_are_no_cause(causes: Causes) -> None:
    assert [] == causes(FILES, 5.0, (MUCH, 0), (MUCH // 5, 0))
    assert [] == causes(FILES, 5.0, (0, 0), (2**20, 0))
    assert [] == causes(FILES, 5.0, (None, None), (MUCH, 0))


def test_it_makes_nothing_faster_and_slows_nothing_else(causes: Causes) -> None:
    assert [] == causes(FILES, 0.5, (0, 0), (MUCH, 0))
    assert [] == causes(CALL, 5.0, (0, 0), (MUCH, 0))


def test_what_comes_from_a_disk_is_counted_and_what_is_in_memory_is_not(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 2**22
    path.write_bytes(os.urandom(size))
    page_cache.write_back(str(tmp_path))
    page_cache.drop([str(path)])
    if page_cache.held_share([str(path)]) > page_cache.COLD:
        pytest.skip(f"{tmp_path} is in memory, as on a tmpfs")
    for expected in (range(size, 2 * size), range(size // 4)):
        before = host_counters.start()
        path.read_bytes()
        found = host_counters.since(before)
        assert found.read_bytes in expected
        assert found.reread_bytes is not None
