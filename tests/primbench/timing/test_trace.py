from __future__ import annotations

import ctypes
import enum
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from primbench.errors import UnsupportedCase
from primbench.timing import trace as trace_module
from primbench.timing.trace import ApiCall, Log, TracedActivity, launch_to_start, overlapped_ns, split_calls, trace

if TYPE_CHECKING:
    from collections.abc import Callable


def test_each_call_gets_the_sum_of_its_kernels() -> None:
    records = [
        TracedActivity(0, 1000, "gemm"),
        TracedActivity(1500, 3500, "reduce"),
        TracedActivity(4000, 5100, "gemm"),
        TracedActivity(5500, 7600, "reduce"),
    ]
    assert split_calls(records, 2) == ([3e-6, 3.2e-6], 2.0, ["gemm", "reduce"])


def test_records_are_put_in_order_of_their_start() -> None:
    records = [
        TracedActivity(40, 47, "b"),
        TracedActivity(0, 1, "a"),
        TracedActivity(20, 25, "a"),
        TracedActivity(10, 12, "b"),
    ]
    assert split_calls(records, 2) == ([3e-9, 12e-9], 2.0, ["a", "b"])


def test_idle_time_between_kernels_is_not_busy() -> None:
    assert split_calls([TracedActivity(0, 5000, "k"), TracedActivity(1_000_000, 1_005_000, "k")], 2)[0] == [5e-6, 5e-6]


def test_calls_of_unequal_length_give_one_sample_the_mean() -> None:
    records = [TracedActivity(0, 1000, "a"), TracedActivity(2000, 4000, "b"), TracedActivity(5000, 8000, "a")]
    assert split_calls(records, 2) == ([3e-6], 1.5, ["a", "b"])


def test_calls_of_unlike_kernels_give_one_sample_though_their_number_divides() -> None:
    records = [
        TracedActivity(0, 1000, "a"),
        TracedActivity(2000, 4000, "b"),
        TracedActivity(5000, 8000, "b"),
        TracedActivity(9000, 13000, "b"),
    ]
    assert split_calls(records, 2) == ([5e-6], 2.0, ["a", "b"])


def test_nothing_recorded_is_no_busy_time_of_zero() -> None:
    with pytest.raises(UnsupportedCase, match="recorded no kernel, copy or fill in 7 calls"):
        split_calls([], 7)


@pytest.mark.parametrize(
    ("times", "expected"),
    [([(0, 10), (10, 20)], 0), ([(5, 15), (0, 10)], 5), ([(0, 100), (10, 20), (90, 120)], 20), ([], 0),
     ([(0, 10), (0, 10), (0, 10)], 20)],
)  # fmt: skip
def test_what_kernels_ran_beside_others_overlaps(times: list[tuple[int, int]], expected: int) -> None:
    assert expected == overlapped_ns([TracedActivity(begin, end, "k") for begin, end in times])


def test_the_first_launch_of_each_call_counts_from_the_outermost_call_to_the_first_kernel() -> None:
    calls = [
        ApiCall(7, 1000),
        ApiCall(7, 1100),
        ApiCall(8, 2000),
        ApiCall(3, 2500),
        ApiCall(9, 5000),
        ApiCall(10, 6000),
    ]
    work = [
        TracedActivity(4000, 4100, "graph", 7),
        TracedActivity(3500, 3600, "graph", 7),
        TracedActivity(4200, 4300, "k", 8),
    ]
    work += [TracedActivity(7500, 7600, "graph", 9), TracedActivity(7700, 7800, "k", 10)]
    assert [2.5e-6, 2.5e-6] == launch_to_start(Log(work, calls), 2)


@pytest.mark.parametrize(
    "log",
    [
        Log([], []),
        Log([TracedActivity(10, 20, "k", 1)], []),
        Log(
            [TracedActivity(10, 20, "k", 1), TracedActivity(30, 40, "k", 2), TracedActivity(50, 60, "k", 3)],
            [ApiCall(1, 5), ApiCall(2, 6), ApiCall(3, 7)],
        ),
        Log([TracedActivity(10, 20, "k", 1), TracedActivity(30, 40, "k", 2)], [ApiCall(1, 15), ApiCall(2, 25)]),
    ],
    ids=["nothing", "no calls", "3 launches in 2 calls", "work ahead of its call"],
)
def test_a_log_that_does_not_match_calls_and_work_gives_no_launch_to_start(log: Log) -> None:
    assert [] == launch_to_start(log, 2)


class Kind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22


class MemcpyKind(enum.IntEnum):
    HTOD = 1


class CuptiError(Exception):
    pass


class Cupti:
    """Keeps what a device does while a kind is enabled and hands it over on a flush, as CUPTI does."""

    ActivityKind = Kind
    ActivityMemcpyKind = MemcpyKind
    cuptiError = CuptiError  # noqa: N815 - the name it has in cupti-python

    def __init__(self) -> None:
        self.enabled: set[int] = set()
        self.pending: list[Any] = []
        self.dropped = 0
        self.refuses = False
        self.now_ns = 1_000_000
        self.launches = 0

    def launch(self, kind: Kind, duration_ns: int, **fields: Any) -> None:
        """A call of the runtime that calls the driver 100 ns later, and starts the work after another 900."""
        self.launches += 1
        begin, start = self.now_ns, self.now_ns + 1000
        self.now_ns = start + duration_ns + 500
        self._log(Kind.DRIVER, begin + 100, begin + 800)
        self._log(Kind.RUNTIME, begin, begin + 900)
        self._log(kind, start, start + duration_ns, **fields)

    def _log(self, kind: Kind, start: int, end: int, **fields: Any) -> None:
        if kind in self.enabled:
            times = {"start": start, "end": end} if self.now_ns > 0 else {"start": 0, "end": 0}
            self.pending.append(SimpleNamespace(kind=int(kind), correlation_id=self.launches, **times, **fields))

    def activity_register_callbacks(self, requested: Callable[[], Any], completed: Callable[[Any], None]) -> None:
        assert requested() == (8 * 2**20, 0)
        self.completed = completed

    def activity_enable(self, kind: int) -> None:
        if self.refuses:
            raise CuptiError("ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)")
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        assert flag == 1
        self.completed(self.pending)
        self.pending = []

    def activity_get_num_dropped_records(self, context: int, stream: int, out: int) -> None:
        ctypes.c_size_t.from_address(out).value = self.dropped


@pytest.fixture(autouse=True)
def fresh_recorder() -> None:
    """The recorder registers with CUPTI once a process; each test brings its own CUPTI."""
    trace_module._cupti_recorder.cache_clear()


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> Cupti:
    module: Any = ModuleType("cupti")
    module.cupti = Cupti()
    monkeypatch.setitem(sys.modules, "cupti", module)
    fake: Cupti = module.cupti
    return fake


class Backend:
    def __init__(self, name: str) -> None:
        self.name = name
        self.synchronized = 0

    def synchronize(self) -> None:
        self.synchronized += 1


def test_cupti_gives_times_names_and_count_of_the_calls_after_the_warm_up(cupti: Cupti) -> None:
    warm = False

    def step() -> None:
        cupti.launch(Kind.MEMCPY, 300, copy_kind=1)
        cupti.launch(Kind.MEMSET, 100)
        cupti.launch(Kind.CONCURRENT_KERNEL, 2000 if warm else 9000, name="_Z4gemmPKf")

    def warm_up() -> None:
        nonlocal warm
        warm = True
        step()

    found = trace(Backend("cupy"), step, 3, warm_up)
    assert found.busy_s.samples_s == [2.4e-6] * 3
    assert (found.busy_s.calls_per_sample, found.busy_s.taken_by) == (1, "cupti")
    assert found.kernels_per_call == 3
    assert found.kernels == ["Memcpy HtoD", "Memset", "gemm(float const*)"]
    assert found.launch_to_start_s is not None
    assert found.launch_to_start_s.samples_s == [1e-6] * 3
    assert not cupti.enabled


def test_a_mean_says_over_how_many_calls(cupti: Cupti) -> None:
    made = iter([1, 1, 2, 1, 1, 2, 1])

    def step() -> None:
        for _ in range(next(made)):
            cupti.launch(Kind.CONCURRENT_KERNEL, 1000, name="k")

    found = trace(Backend("numba"), step, 3, lambda: None)
    assert found.busy_s.samples_s == pytest.approx([4e-6 / 3])
    assert found.busy_s.calls_per_sample == 3
    assert found.launch_to_start_s is None


def test_dropped_records_refuse_the_trace(cupti: Cupti) -> None:
    cupti.dropped = 17
    with pytest.raises(UnsupportedCase, match="dropped 17 records: trace fewer calls"):
        trace(Backend("cupy"), lambda: None, 3, lambda: None)


def test_kernels_without_times_refuse_the_trace(cupti: Cupti) -> None:
    cupti.now_ns = -(10**9)
    with pytest.raises(UnsupportedCase, match="without their times"):
        trace(
            Backend("cupy"),
            lambda: cupti.launch(Kind.CONCURRENT_KERNEL, 1000, name="k"),
            3,
            lambda: None,
        )


def test_a_second_user_of_cupti_is_named(cupti: Cupti) -> None:
    cupti.refuses = True
    with pytest.raises(UnsupportedCase, match="MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"):
        trace(Backend("cupy"), lambda: None, 3, lambda: None)


def test_without_cupti_python_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(UnsupportedCase, match="pip install cupti-python"):
        trace(Backend("cupy"), lambda: None, 3, lambda: None)


class Profiler:
    """What torch.profiler keeps of a GPU: events in float microseconds from the start of the trace."""

    device: ClassVar[list[TracedActivity]] = []

    def __init__(self, activities: list[str]) -> None:
        assert activities == ["CUDA"]

    def __enter__(self) -> Profiler:
        Profiler.device = []
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self) -> list[Any]:
        def event(record: TracedActivity, device: str, *, annotation: bool = False) -> Any:
            return SimpleNamespace(
                time_range=SimpleNamespace(start=record.start_ns / 1000, end=record.end_ns / 1000),
                name=record.name,
                id=record.correlation,
                device_type=SimpleNamespace(name=device),
                is_user_annotation=annotation,
            )

        annotation = event(TracedActivity(0, 9_000_000, "range", 5), "CUDA", annotation=True)
        return [
            annotation,
            *(event(TracedActivity(record.start_ns - 4001, 0, "cudaLaunchKernel", record.correlation), "CPU")
              for record in Profiler.device),
            *(event(record, "CUDA") for record in Profiler.device),
        ]  # fmt: skip


def test_torch_is_traced_by_its_profiler_to_the_nanosecond(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.profiler = ModuleType("torch.profiler")
    torch.profiler.profile = Profiler
    torch.profiler.ProfilerActivity = SimpleNamespace(CUDA="CUDA")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", torch.profiler)
    backend = Backend("torch")

    def step() -> None:
        correlation = len(Profiler.device) + 1
        start = 1_234_567 * correlation
        Profiler.device.append(TracedActivity(start, start + 1603, "nvjet", correlation))

    found = trace(backend, step, 4, lambda: None)
    assert found.busy_s.samples_s == [1603e-9] * 4
    assert (found.busy_s.taken_by, found.kernels, found.kernels_per_call) == (
        "torch.profiler",
        ["nvjet"],
        1.0,
    )
    assert found.launch_to_start_s is not None
    assert found.launch_to_start_s.samples_s == [4001e-9] * 4
    assert backend.synchronized == 3 + 4
