from __future__ import annotations

import functools
import gc
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from primbench import problem as problem_file
from primbench import registry
from primbench.backends import open_backend
from primbench.errors import BackendUnavailable, InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.files import Files
from primbench.kernels.gemm import Gemm
from primbench.measurement import Measurement, Samples
from primbench.problem import Step, described
from primbench.spec.method import Method
from primbench.system import memory
from primbench.timing import host_counters
from primbench.timing.calls import CallLoop
from primbench.timing.case import measure, measure_on, setup
from primbench.timing.cpu import calls_per_batch
from primbench.timing.feasibility import check_affordable, check_memory
from primbench.timing.sampling import Pace
from tests import processes

QUICK = Method(min_time_s=0.002, max_time_s=0.02)
GEMM = registry.setup_of("gemm", "numpy")


def test_who_looks_sees_the_processes_of_a_case_once_it_is_timed(tmp_path: Path) -> None:
    problem = Files(4096, files=2, readers=2, reader="process", path=str(tmp_path))
    readers = functools.partial(processes.children, "primbench.kernels.files._process", recursive=True)
    seen = list[int]()
    backend = open_backend("numpy", "cpu")
    measured = measure_on(backend, problem, QUICK, look=lambda: seen.append(len(readers())))
    gc.collect()
    assert ([2], [], True) == (seen, readers(), measured.verified)


def test_what_a_case_holds_goes_with_it_and_waits_for_no_collector(tmp_path: Path) -> None:
    """Arrays of a GPU that is nearly full, files, processes."""
    gc.disable()
    try:
        assert measure(Files(4096, path=str(tmp_path)), "numpy", "cpu", method=QUICK).verified
        assert not list(tmp_path.iterdir())
    finally:
        gc.enable()


def test_a_cpu_measurement_has_its_metrics_and_says_why_others_are_absent() -> None:
    measured = measure(Gemm(64, 64, 64), backend="numpy", device="cpu", method=QUICK)
    assert measured.verified
    assert measured.error is not None
    assert measured.tolerance is not None
    assert 0 < measured.error < measured.tolerance
    assert measured.batch_s is not None
    assert measured.wall_s is not None
    assert min(measured.batch_s.samples_s) > 0
    assert measured.flop_per_s == pytest.approx(2 * 64**3 / measured.batch_s.median_s)
    absent = {"enqueue_s", "enqueue_single_s", "stream_s", "device_s", "gpu", "trace", "over_time"}
    assert absent == set(measured.missing) - {"warm_up_drift"}
    assert (measured.warm_up_drift is None) == ("warm_up_drift" in measured.missing), (
        "on a busy CPU it may be too short"
    )
    assert all(getattr(measured, name) is None for name in absent)
    before = ["estimate", "inputs", "setup", "first calls", "check", "own CPU", "warm-up"]
    assert [*before, "batch_s", "wall_s", "timing", "look"] == list(measured.phases_s)
    assert measured.host is not None
    assert measured.host.cpu_time_s > 0


def test_a_call_that_fills_a_batch_is_timed_once_for_both_metrics() -> None:
    measured = measure(Gemm(700, 700, 700), backend="numpy", device="cpu", method=QUICK)
    assert measured.batch_s is measured.wall_s
    assert measured.batch_s is not None
    assert 1 == measured.batch_s.calls_per_sample


def test_a_dry_run_checks_and_times_nothing() -> None:
    measured = measure(Gemm(8, 8, 8), backend="numpy", device="cpu", method=Method(dry_run=True))
    assert measured.verified
    assert measured.main is None
    assert measured.flop_per_s is None


def test_unchecked_is_neither_right_nor_wrong() -> None:
    measured = measure(Gemm(8, 8, 8), backend="numpy", device="cpu", method=Method(check=False, dry_run=True))
    assert measured.verified is None
    assert measured.error is None


def test_a_batch_lasts_50_us() -> None:
    now_ns = 0

    def step() -> None:
        nonlocal now_ns
        now_ns += 1_500

    count = calls_per_batch(CallLoop([step]), Pace(lambda: now_ns))
    assert 64 == count
    assert count * 1.5e-6 >= 50e-6
    assert 128 == calls_per_batch(CallLoop([step]), Pace(lambda: now_ns), 180e-6), "as where it is sampled for minutes"


def test_a_slow_call_is_a_batch_of_one() -> None:
    assert 1 == calls_per_batch(CallLoop([lambda: time.sleep(1e-3)]), Pace())


def test_a_call_that_something_comes_before_is_a_batch_of_one() -> None:
    assert 1 == calls_per_batch(CallLoop([described(lambda: None, before=lambda: None)]), Pace())


def test_a_hopeless_case_is_refused_before_it_starts() -> None:
    now_ns = 0

    def slow_clock() -> int:
        nonlocal now_ns
        now_ns += 10**9
        return now_ns

    backend = open_backend("numpy", "cpu")
    with pytest.raises(UnsupportedCase, match=r"about \d+ s a call"):
        check_affordable(backend, Gemm(8192, 8192, 8192), Method(), slow_clock, GEMM)


def test_a_quick_probe_alone_refuses_nothing() -> None:
    """Beside a busy process every call of 0.1 ms can take 16 ms; only a probe that lasts has a say."""
    now_ns = 0

    def late_clock() -> int:
        nonlocal now_ns
        now_ns += 16_000_000
        return now_ns

    check_affordable(open_backend("numpy", "cpu"), Gemm(8192, 8192, 8192), Method(), late_clock, GEMM)


def test_a_probe_that_waited_for_a_cpu_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As beside ten busy processes, where a probe of 1 ms took 0.4 s each of the three times."""
    now_ns = 0
    reading = host_counters.since(host_counters.start())

    def late_clock() -> int:
        nonlocal now_ns
        now_ns += 400_000_000
        return now_ns

    def refuse(waited_s: float, held_back_s: float) -> None:
        found = replace(reading, waited_s=waited_s, throttled_s=held_back_s)
        monkeypatch.setattr(host_counters, "since", lambda before: found)
        check_affordable(open_backend("numpy", "cpu"), Gemm(8192, 8192, 8192), Method(), late_clock, GEMM)

    refuse(0.39, 0.0)
    for waited_s, held_back_s in ((0.1, 0.0), (0.39, 0.39)):
        with pytest.raises(UnsupportedCase, match=r"about \d+ s a call"):
            refuse(waited_s, held_back_s)


def test_a_small_case_needs_no_estimate() -> None:
    assert Gemm(128, 128, 128).probe(2**24) is None
    probe = Gemm(4096, 16, 4096, "float64", trans_b=True).probe(2**24)
    assert probe is not None
    assert (16, True, "float64") == (probe.n, probe.trans_b, probe.dtype)


def test_what_does_not_fit_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 2**20)
    with pytest.raises(UnsupportedCase, match=r"needs 24 MiB, 1 MiB free on this host"):
        measure(Gemm(1024, 1024, 1024), backend="numpy", device="cpu", method=QUICK)


def test_of_what_takes_less_than_python_does_nobody_asks_whether_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 0)
    check_memory(open_backend("numpy", "cpu"), Gemm(128, 128, 128))


def test_a_kernel_can_be_used_without_timing() -> None:
    step = setup(Gemm(3, 5, 7), backend="numpy")
    assert (3, 5) == step().shape


def test_a_backend_that_cannot_be_had_says_why() -> None:
    with pytest.raises(BackendUnavailable, match="backend numpy on cuda:0: it runs on cpu only"):
        measure(Gemm(1, 1, 1), backend="numpy", device="cuda:0")
    with pytest.raises(InvalidRequest, match=r"backend 'numpie': did you mean numpy\? there are .*numpy"):
        measure(Gemm(1, 1, 1), backend="numpie")


@pytest.mark.parametrize(
    "options", [{"max_noise": 0.0}, {"max_noise": 5.0}, {"min_time_s": 3.0}, {"max_time_s": 0.0}, {"seed": -1}]
)
def test_a_method_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidRequest):
        Method(**options)  # type: ignore[arg-type]


@pytest.fixture
def step_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Step], Step]], None]:
    """Puts another step in the place of the one that gemm on NumPy has."""
    right = registry.setup_of("gemm", "numpy")

    def replace_by(change: Callable[[Step], Step]) -> None:
        monkeypatch.setitem(problem_file.KERNELS, ("gemm", "numpy", ""), lambda *given: change(right(*given)))

    return replace_by


def measured_on_numpy(method: Method = QUICK) -> Measurement:
    return measure(Gemm(16, 16, 16), backend="numpy", device="cpu", method=method)


def wrong_from_call(number: int) -> Callable[[Step], Step]:
    """A step that gives zeros from so many calls on."""

    def change(right: Step) -> Step:
        calls = itertools.count(1)

        def step() -> Any:
            output = right()
            if next(calls) >= number:
                output[:] = 0
            return output

        return step

    return change


AT_SPEED = 10  # more calls than set-up and the first check make, fewer than are timed


def test_what_goes_wrong_at_speed_is_found_in_a_kernel_that_is_brought(step_of: Callable[..., None]) -> None:
    step_of(wrong_from_call(AT_SPEED))
    with pytest.raises(VerificationError, match="wrong result"):
        measured_on_numpy()


def test_the_second_check_takes_place_only_after_a_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "check_again", True)
    assert "second check" in measured_on_numpy().phases_s
    assert "second check" not in measured_on_numpy(replace(QUICK, check=False)).phases_s
    assert "second check" not in measured_on_numpy(replace(QUICK, dry_run=True)).phases_s


def test_a_problem_may_be_checked_on_other_inputs_than_it_is_timed_on(
    monkeypatch: pytest.MonkeyPatch, step_of: Callable[..., None]
) -> None:
    set_up = []

    def change(right: Step) -> Step:
        set_up.append(right)
        return right

    step_of(change)
    assert measured_on_numpy(replace(QUICK, dry_run=True)).verified
    assert 1 == len(set_up)
    monkeypatch.setattr(Gemm, "check_inputs", lambda problem, rng, inputs: tuple(2 * each for each in inputs))
    assert measured_on_numpy(replace(QUICK, dry_run=True)).verified
    assert 1 + 2 == len(set_up)


def test_no_file_stays_open() -> None:
    measured_on_numpy()  # which opens what is opened once
    before = os.listdir("/proc/self/fd")
    measured_on_numpy()
    assert before == os.listdir("/proc/self/fd")


def test_what_cannot_be_verified_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gemm, "why_unverifiable", lambda problem: "it leaves nothing behind")
    measured = measured_on_numpy()
    assert (None, "it leaves nothing behind") == (measured.verified, measured.missing["verified"])
    assert measured.batch_s is not None


def test_a_step_may_have_times_and_counts_of_its_own(step_of: Callable[..., None]) -> None:
    taken = Samples(samples_s=[1e-6], calls_per_sample=1, taken_by="a test", stopped="count")

    def change(right: Step) -> Step:
        step = functools.partial(right)
        described(step, others={"replay_s": lambda method, clock: taken}, counts={"sent_bytes": 8})
        return step

    step_of(change)
    measured = measured_on_numpy()
    assert ({"replay_s": taken}, {"sent_bytes": 8}) == (measured.others, measured.counts)
    assert {} == measured_on_numpy(replace(QUICK, dry_run=True)).others


def test_single_calls_are_sampled_as_long_as_batches_where_tails_matter(
    monkeypatch: pytest.MonkeyPatch, step_of: Callable[..., None]
) -> None:
    """By a clock that only calls move, 10 us each, so that counts follow from the rules alone."""
    now_ns = 0

    def change(right: Step) -> Step:
        def step() -> Any:
            nonlocal now_ns
            now_ns += 10_000
            return right()

        return step

    def singles() -> int:
        method = Method(min_time_s=0.05, max_time_s=0.05)
        measured = measure(Gemm(4, 4, 4), backend="numpy", device="cpu", method=method, clock=lambda: now_ns)
        assert measured.wall_s is not None
        return len(measured.wall_s.samples_s)

    step_of(change)
    assert 50 == singles()
    monkeypatch.setattr(Gemm, "has_tails", True)
    assert 5000 == singles()
