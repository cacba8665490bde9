"""Causes of numbers that no machine here shows, such as those of GPUs, and stretches put together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from primbench.causes._job_waits import MOST_TOLD
from primbench.cli import main
from primbench.doctor.cause import Hindrance
from primbench.doctor.job import ENTRY_POINTS, FunctionCalls, GpuUse, Job, Stretch, ThreadUse
from primbench.environment.limits import Limits
from primbench.measurement.readings import GpuProcess
from primbench.watching.causes import hindrances
from primbench.watching.moment import read
from primbench.watching.stretch import between, joined

JOB = Job(
    pid=7, name="7 (train)", cpus_total=8,
    limits=Limits(cpus_allowed=[0, 1, 4], cpu_quota=1.5, cpu_period_s=0.1, memory_limit_bytes=2**30),
)  # fmt: skip
GPU = GpuUse(
    uuid="GPU-1", name="H100", busy_fraction=1.0, memory_used_bytes=2**30, memory_bytes=2**36, sm_clock_hz=1.98e9,
    sm_clock_max_hz=1.98e9, held_by={}, own=[7], power_w=700.0, temperature_c=60.0,
)  # fmt: skip


def thread(number: int, ran_s: float, waited_s: float, cpus: list[int] | None = None) -> ThreadUse:
    return ThreadUse(
        number=number, process=JOB.pid, parent=1, name="train", ran_s=ran_s, waited_s=waited_s, cpus=cpus or [0, 1, 4]
    )


CALM = Stretch(
    time_s=10.0, duration_s=10.0, process_count=1, thread_count=9, cpu_time_s=9.0, minor_faults=0, major_faults=0,
    threads=[thread(7, 9.5, 0.1)], looks=100, gpus=[GPU],
)  # fmt: skip
COPYING = {"pcie_received_bytes_per_s": 8e9, "pcie_sent_bytes_per_s": 1e7, "pcie_link_bytes_per_s": 63e9}
HELD = {"periods": 100, "throttled_periods": 43, "throttled_s": 3.0}
FOUR = [thread(number, 6.0, 4.0, [0, 4]) for number in range(4)]
CAUSES: dict[str, tuple[dict[str, Any], str, str]] = {
    "cpu-quota": (HELD | {"threads": [thread(7, 7.0, 3.0)]}, "in 43.0% of periods", "bind-cpus=0-1+4,cpus=1.5 "),
    "threads": (
        {"threads": FOUR},
        "4 threads of its own want 4.0 CPUs and have 2",
        "bind-cpus=0+4,threads=2 --arm host:bind",
    ),
    "cpu-contention": (
        {"threads": [thread(7, 8.0, 1.8)]},
        "waited for a CPU 18.0%",
        "study shared --arm host:bind-cpus",
    ),
    "priority": (
        {"threads": [replace(thread(7, 8.0, 1.8), niceness=5, scheduling="other")]},
        "waited for a CPU 18.0% of the time, as others that want the same CPUs go first: its niceness is 5",
        "study shared --arm host:bind-cpus",
    ),
    "thread-cpus": (
        {"threads": [thread(number, 5.0, 5.0, [4]) for number in (7, 8)]},
        "2 threads that want 2.0 CPUs may run on CPU 4 alone, of its 0-1,4",
        "bind-cpus=4,threads=2",
    ),
    "disk": (
        {"major_faults": 12_000, "blocked": {7: 40}, "read_bytes": 0, "written_bytes": 0},
        "reads from disk: major faults 1,200 a second",
        "tmpfs=/tmp --primitive files",
    ),
    "memory": ({"swapped_in_bytes": 2**30, "blocked": {7: 60}}, "swapping in: 102 MiB a second", "memory=1GiB"),
    "stopped": ({"stopped": {7: 50}}, "process 7 stopped for 50.0% of the time: it goes on by `kill -CONT`", ""),
    "tracer": ({"stopped": {7: 50}, "tracer": "31 (strace)"}, "process 31 (strace) traces it", ""),
    "blocked": ({"blocked": {7: 30}, "blocked_in": {"kernel_clone": 30}}, "where it starts processes", ""),
    "workers": (
        {"threads": [replace(thread(8, 9.0, 0.9), process=8, parent=7, is_forked=True), thread(7, 1.0, 0.5)]},
        "process 7 wants no CPU in 85.0% of the time, while a process that it started has a whole one",
        "",
    ),
    "turns": (
        {"threads": [thread(number, 2.5, 1.0) for number in range(4)]},
        "4 threads of process 7 run in turn: 1.00 CPUs in all, though each slept for 65.0% of the time or more",
        "",
    ),
    "asleep": (
        {
            "threads": [],
            "cpu_time_s": 0.2,
            "gpus": [replace(GPU, busy_fraction=0.1)],
            "asleep": 96,
            "asleep_in": {7: {"do_wait": 96}, 8: {"wait_woken": 95, "futex_do_wait": 1}},
        },
        "nothing of it ran for 90.0% of the time: thread 8 waits for what comes by a socket",
        "",
    ),
    "kernel-time": ({"kernel_time_s": 8.0}, "88.9% of its CPU time is the kernel's", ""),
    "gpu-clocks": (
        {"gpus": [replace(GPU, held_by={"sw power cap": 0.5, "gpu idle": 0.9}, sm_clock_hz=1.1e9)]},
        "held down: sw power cap in 50.0% of the looks",
        "",
    ),
    "gpu-processes": (
        {"gpus": [replace(GPU, others=[GpuProcess(pid=31, memory_bytes=2**30)])]},
        "process 31 with 1 GiB",
        "study shared",
    ),
    "launches": (
        {"gpus": [replace(GPU, busy_fraction=0.4)]},
        "GPU idle 60.0% of the time",
        "--arm host:numa-node=auto",
    ),
    "copies": (
        {"gpus": [replace(GPU, busy_fraction=0.2, **COPYING)]},
        "GPU idle 80.0% of the time, while 7.45 GiB/s are copied to it, as pageable memory's are",
        "--arm host:numa-node=auto --primitive memcpy",
    ),
}


@pytest.mark.parametrize(("cause", "changes", "summary", "study"), [(name, *each) for name, each in CAUSES.items()])
def test_a_cause_is_found_first(cause: str, changes: dict[str, Any], summary: str, study: str) -> None:
    found = hindrances(replace(CALM, **changes), JOB)
    assert cause == found[0].cause
    assert summary in found[0].summary
    assert study in (found[0].study or "")


def test_a_launcher_is_not_held_back_by_what_it_started_nor_do_all_threads_that_share_a_cpu_take_turns() -> None:
    ranks = [replace(thread(number, 9.5, 0.1), process=number, parent=7) for number in (8, 9)]
    assert [] == hindrances(replace(CALM, threads=[*ranks, thread(7, 0.2, 0.0)]), JOB)
    assert [] == hindrances(replace(CALM, threads=[thread(7, 5.0, 0.0), thread(8, 5.0, 0.0)]), JOB)
    many = [thread(number, 0.6, 5.0) for number in range(16)]
    assert ["threads"] == [each.cause for each in hindrances(replace(CALM, threads=many), JOB)]


def test_who_comes_last_is_told_by_itself_or_its_process_and_not_where_it_waits_for_its_own() -> None:
    idle = replace(thread(7, 8.0, 1.8), niceness=0, scheduling="idle")
    (found,) = hindrances(replace(CALM, threads=[idle]), JOB)
    assert found.summary.endswith("go first: its policy is idle")
    nice = replace(JOB, limits=replace(JOB.limits, niceness=3))
    (found,) = hindrances(replace(CALM, threads=[thread(7, 8.0, 1.8)]), nice)
    assert ("priority", True) == (found.cause, found.summary.endswith("its niceness is 3"))
    usual = replace(thread(7, 8.0, 1.8), niceness=0, scheduling="other")
    assert ["cpu-contention"] == [each.cause for each in hindrances(replace(CALM, threads=[usual]), nice)]
    own = [replace(each, niceness=5) for each in FOUR]
    assert ["threads"] == [each.cause for each in hindrances(replace(CALM, threads=own), JOB)]


def test_what_traces_a_job_is_told_first() -> None:
    threads = [thread(7, 2.0, 7.0)]
    found = hindrances(replace(CALM, threads=threads, stopped={7: 20}, tracer="31 (strace)"), JOB)
    assert ["tracer", "cpu-contention"] == [each.cause for each in found]


def test_a_job_is_not_asleep_while_threads_that_are_not_looked_at_want_cpus() -> None:
    many = [thread(number, 0.6, 5.0) for number in range(16)]
    found = hindrances(replace(CALM, threads=many, asleep=20, gpus=[], asleep_in={7: {"futex_do_wait": 20}}), JOB)
    assert ["threads"] == [each.cause for each in found]


def test_of_many_that_slept_those_are_told_that_did_most() -> None:
    slept = {number: {"hrtimer_nanosleep": number % 3} for number in range(8, 60)} | {60: {"fcntl_setlk": 9}}
    whole = replace(CALM, threads=[], cpu_time_s=0.0, gpus=[], asleep=96, asleep_in={7: {"do_wait": 96}} | slept)
    (found,) = hindrances(whole, JOB)
    assert found.summary.endswith("thread 60 waits for who has locked a file")
    assert 1 + MOST_TOLD == len(found.evidence)


def test_what_is_read_again_without_a_limit_is_told_of_the_machine() -> None:
    job = replace(JOB, limits=replace(JOB.limits, memory_limit_bytes=None))
    again = READING | {"reread_bytes": 2**30}
    (found,) = hindrances(replace(CALM, **again), job)
    assert ("memory", "reads again what a lack of memory had taken out of the cache: 102 MiB a second") == (
        found.cause, found.summary,
    )  # fmt: skip
    (found,) = hindrances(replace(CALM, **again), JOB)
    assert "reads again what its memory limit had taken out of the cache: 102 MiB a second" == found.summary
    (found,) = hindrances(replace(CALM, **READING | {"reread_bytes": 2**26}), job)
    assert "disk" == found.cause


READING = {"read_bytes": 2**30, "written_bytes": 0, "blocked": {7: 40}}


def test_a_disk_that_is_read_little_ahead_is_told_in_place_of_reading() -> None:
    job = replace(JOB, read_ahead_bytes={"vda": 2**22, "loop0": 2**14})
    (found,) = hindrances(replace(CALM, **READING), job)
    assert ("read-ahead", 0.4) == (found.cause, found.share)
    assert found.summary == "reads from disk: 102 MiB a second, by 16 KiB at a time, as loop0 is read no further ahead"


@pytest.mark.parametrize("ahead", [None, {}, {"vda": 2**17}])
def test_a_disk_that_is_read_as_far_ahead_as_is_usual_is_not_told(ahead: dict[str, int] | None) -> None:
    (found,) = hindrances(replace(CALM, **READING), replace(JOB, read_ahead_bytes=ahead))
    assert "disk" == found.cause


def test_a_job_that_writes_waits_for_its_disk_all_the_same() -> None:
    writing = READING | {"written_bytes": 2**31}
    (found,) = hindrances(replace(CALM, **writing), replace(JOB, read_ahead_bytes={"loop0": 2**14}))
    assert "disk" == found.cause


def test_faults_of_a_file_that_is_mapped_are_told_of_the_kernel_too() -> None:
    found = hindrances(replace(CALM, kernel_time_s=8.0, minor_faults=20, major_faults=120_000), JOB)
    (kernel,) = [each for each in found if each.cause == "kernel-time"]
    assert "page faults: 2 minor and 12,000 major a second" in kernel.evidence


def test_who_waits_for_a_gpu_is_not_asleep() -> None:
    assert [] == hindrances(replace(CALM, threads=[], cpu_time_s=0.0, asleep=100, asleep_in={7: {"do_poll": 100}}), JOB)


def test_the_parents_of_busy_processes_are_listed_though_many_want_more() -> None:
    many = [replace(thread(number, 9.5, 0.1), process=number, parent=7) for number in range(100, 140)]
    whole = joined([replace(CALM, threads=[*many, thread(7, 0.5, 0.0), thread(6, 0.6, 0.0)])])
    assert [*range(100, 116), 6] == [each.number for each in whole.threads], "one of the parent's, that wants most"


@pytest.mark.parametrize("cpus", [8, 20, 128])
def test_threads_that_are_not_listed_want_their_cpus_too(cpus: int) -> None:
    """Twice as many as there are CPUs, of which some are listed in one stretch and others in the next."""
    allowed = list(range(cpus))
    wide = replace(JOB, limits=replace(JOB.limits, cpus_allowed=allowed))
    many = [thread(number, 5.0, 5.0, allowed) for number in range(2 * cpus)]
    stretches = [joined([replace(CALM, threads=each)]) for each in (many, many[::-1])]
    assert [2 * cpus] * 2 == [len(each.threads) + sum(other.threads for other in each.unlisted) for each in stretches]
    (found,) = hindrances(joined(stretches), wide)
    assert f"{2 * cpus} threads of its own want {2 * cpus}.0 CPUs and have {cpus}" == found.summary


def test_who_has_to_give_memory_back_is_told_so() -> None:
    found, *_ = hindrances(replace(CALM, blocked={7: 30}, blocked_in={"mem_cgroup_handle_over_high": 30}), JOB)
    assert ("blocked", "as it is above memory.high") == (found.cause, found.evidence[-1])


def test_small_writes_that_are_waited_for_are_the_disks() -> None:
    found, *_ = hindrances(replace(CALM, blocked={7: 30}, blocked_in={"do_fsync": 25}, written_bytes=2**20), JOB)
    assert ("disk", 0.3) == (found.cause, found.share)
    assert "waits until a disk has what it wrote" in found.summary
    assert found.effect.startswith("who writes waits")


@pytest.mark.parametrize(("function", "told"), [("do_fsync", True), ("folio_wait_bit", False)])
def test_large_writes_that_are_waited_for_are_told_from_those_that_are_not(function: str, told: bool) -> None:
    found, *_ = hindrances(replace(CALM, blocked={7: 30}, blocked_in={function: 25}, written_bytes=2**32), JOB)
    assert found.summary.startswith("writes to disk: ")
    assert told == ("by fsync" in found.summary)


def test_a_file_system_that_a_process_answers_for_is_named() -> None:
    found, *_ = hindrances(replace(CALM, blocked={7: 30}, blocked_in={"request_wait_answer": 28}), JOB)
    assert ("blocked", 0.3) == (found.cause, found.share)
    assert "(FUSE)" in found.summary


def test_what_is_calm_is_held_back_by_nothing() -> None:
    assert [] == hindrances(CALM, JOB)


@pytest.mark.parametrize("changes", [changes for changes, *_ in CAUSES.values()], ids=[*CAUSES])
def test_studies_parse(changes: dict[str, Any]) -> None:
    for job in (JOB, replace(JOB, cpus_total=3)):
        for study in studies(hindrances(replace(CALM, **changes), job)):
            with click.Context(main, info_name="primbench", **main.context_settings) as context:
                name, command, rest = main.resolve_command(context, shlex.split(study)[1:])
                assert name == "study"
                assert command is not None
                command.make_context(name, rest, parent=context)


def studies(found: list[Hindrance]) -> Iterator[str]:
    assert found
    return (each.study for each in found if each.study is not None)


def test_a_quota_takes_its_own_waiting_from_that_for_others() -> None:
    both = hindrances(replace(CALM, threads=[thread(7, 4.0, 6.0)], **HELD), JOB)
    assert [("cpu-quota", 0.3), ("cpu-contention", 0.3)] == [(each.cause, each.share) for each in both]


def test_who_waits_for_threads_of_its_own_may_want_a_cpu_for_little_of_the_time() -> None:
    """As where they hold a lock in turn, or where more are there than a machine has CPUs."""
    in_turn = [thread(number, 3.0, 1.5, [0, 4]) for number in range(6)]
    many = [thread(number, 5.0, 5.0, [*range(64)]) for number in range(128)]
    beside = [thread(0, 5.0, 5.0, [0]), *(thread(cpu, 10.0, 0.0, [cpu]) for cpu in (1, 4))]
    on_two = replace(JOB, limits=replace(JOB.limits, cpus_allowed=[0, 4]))
    for threads, job, cause in (
        (in_turn, on_two, "threads"),
        (many, JOB, "threads"),
        (beside, JOB, "cpu-contention"),
        (in_turn, JOB, "thread-cpus"),
    ):
        assert cause == hindrances(replace(CALM, threads=threads), job)[0].cause


def test_a_gpu_that_waits_for_a_cpu_held_back_is_told_by_that() -> None:
    gpus = [replace(GPU, busy_fraction=0.4)]
    found = hindrances(replace(CALM, gpus=gpus, threads=[thread(7, 5.0, 5.0)]), JOB)
    assert ["cpu-contention"] == [each.cause for each in found]


@pytest.mark.parametrize(
    ("launches", "active", "told"), [(300, 0.02, ["launches"]), (300, 0.9, []), (1, 0.02, []), (300, None, [])]
)
def test_tiny_kernels_that_nvml_takes_for_a_busy_gpu(launches: int, active: float | None, told: list[str]) -> None:
    calls = [FunctionCalls(function="cuLaunchKernel", thread=7, count=launches, counted_s=4e-3, ran_s=4e-3)]
    found = hindrances(replace(CALM, calls=calls, gpus=[replace(GPU, sm_active_fraction=active)]), JOB)
    assert told == [each.cause for each in found]


def test_threads_that_launch_in_turn_are_together_what_a_gpu_waits_for() -> None:
    gpus = [replace(GPU, busy_fraction=0.4)]
    forward, backward, other = (thread(number, ran_s, 0.0) for number, ran_s in ((7, 5.0), (9, 4.5), (8, 0.5)))
    assert [] == hindrances(replace(CALM, gpus=gpus, threads=[forward, other]), JOB)
    (found,) = hindrances(replace(CALM, gpus=gpus, threads=[forward, backward]), JOB)
    assert "launches" == found.cause
    loaders = [replace(each, process=31) for each in (forward, backward)]
    assert [] == hindrances(replace(CALM, gpus=gpus, threads=loaders), JOB)


def test_copies_beside_kernels_and_those_near_what_the_link_carries_are_no_pageable_ones() -> None:
    assert [] == hindrances(replace(CALM, gpus=[replace(GPU, **COPYING)]), JOB)
    near = replace(GPU, busy_fraction=0.2, **COPYING | {"pcie_received_bytes_per_s": 40e9})
    (found,) = hindrances(replace(CALM, gpus=[near]), JOB)
    assert ("copies", False) == (found.cause, "pageable" in found.summary + found.effect)


def test_stretches_add_up() -> None:
    one = replace(CALM, blocked={7: 3}, read_bytes=5, switches=None, missing={"a": "b"})
    other = replace(CALM, time_s=15.0, duration_s=5.0, looks=50, blocked={7: 1, 8: 2}, read_bytes=7, memory_bytes=9)
    whole = joined([one, replace(other, threads=[thread(8, 1.0, 0.0), thread(7, 1.0, 2.0)])])
    assert (15.0, 15.0, 150) == (whole.time_s, whole.duration_s, whole.looks)
    assert ({7: 4, 8: 2}, 12, None, 9) == (whole.blocked, whole.read_bytes, whole.switches, whole.memory_bytes)
    assert [(7, 10.5, 2.1), (8, 1.0, 0.0)] == [(each.number, each.ran_s, each.waited_s) for each in whole.threads]
    assert {"a": "b"} == whole.missing


def test_calls_add_up_by_function_and_thread_and_their_rates_by_function() -> None:
    one, other = ([FunctionCalls(function="f", thread=each, count=3, counted_s=1.0, ran_s=1.0)] for each in (7, 8))
    whole = joined([replace(CALM, calls=calls, threads=[]) for calls in (one, one + other, None)])
    assert [(7, 6, 2.0), (8, 3, 1.0)] == [(each.thread, each.count, each.counted_s) for each in whole.calls or []]
    assert (6.0, None) == (whole.launches_per_s, joined([CALM]).launches_per_s)
    assert replace(CALM, calls=[]).launches_per_s is None  # no count was due: that is no rate of 0


def test_no_launches_is_told_where_all_was_counted_by_which_they_are_made() -> None:
    counts = [FunctionCalls(function=each, thread=9, count=0, counted_s=0.002, ran_s=0.0) for each in ENTRY_POINTS]
    rates = [replace(CALM, calls=counted).launches_per_s for counted in (counts[:3], counts)]
    assert [None, 0.0] == rates


def test_gpus_are_averaged_over_the_looks_at_them_however_they_are_joined() -> None:
    looks = [
        replace(GPU, busy_fraction=busy, held_by={"sw power cap": 1.0} if busy > 0.5 else {})
        for busy in (0.0, 0.6, 0.9)
    ]
    stretches = [replace(CALM, gpus=[look]) for look in looks]
    whole = joined([joined(stretches[:2]), stretches[2]])
    assert whole.gpus is not None
    (gpu,) = whole.gpus
    assert 3 == gpu.looks
    assert pytest.approx(0.5) == gpu.busy_fraction
    assert pytest.approx({"sw power cap": 2 / 3}) == gpu.held_by


def test_who_began_and_ended_meanwhile_counts_once(tmp_path: Path) -> None:
    """Process 7 has waited for 8, of which 2 s were counted before, and for one that came and went, of 1 s."""
    ticks = os.sysconf("SC_CLK_TCK")
    moments = []
    for seconds in ({7: (1, 0), 8: (2, 0)}, {7: (2, 4), 9: (5, 0)}):  # 8 had run for 3 s when it ended
        for pid, (own_s, ended_s) in seconds.items():
            (tmp_path / f"proc/{pid}/task").mkdir(parents=True, exist_ok=True)
            fields = ["S", "1", *["0"] * 9, str(own_s * ticks), "0", str(ended_s * ticks), *["0"] * 30]
            (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (train) {' '.join(fields)}\n")
        moments.append(read(tmp_path, [*seconds]))
    assert 1 + 5 + (4 - 2) == between(moments[0], moments[1], moments[0].time_s).cpu_time_s


def test_a_process_in_a_tree_of_files(tmp_path: Path) -> None:
    """Without schedstat, sched, io and pressure: what is unknown is None with the reason, and nothing is guessed."""
    folder = tmp_path / "proc/7"
    (folder / "task/7").mkdir(parents=True)
    fields = ["S", "1", *["0"] * 50]
    before, after = ([*fields], [*fields])
    after[9], after[11] = "30", "100"
    (folder / "status").write_text("Name:\ttrain\nVmRSS:\t8 kB\n")
    moments = []
    for each in (before, after):
        (folder / "stat").write_text(f"7 (a name) {' '.join(each)}\n")
        moments.append(read(tmp_path, [7, 8]))
    found = between(moments[0], moments[1], moments[0].time_s)
    assert (1, 30, 8192) == (found.process_count, found.major_faults, found.memory_bytes)
    assert found.cpu_time_s > 0
    for field in ("read_bytes", "swapped_bytes", "throttled_s", "io_waiting_s", "reread_bytes"):
        assert getattr(found, field) is None, field
        assert found.missing[field], field
    assert ([], None) == (found.threads, found.busiest)
