"""Convolutions as cuDNN is told of them, and the choice among its plans; against a stand-in for the library."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.cuda import cudnn, cudnn_conv, cudnn_graph, trial
from primbench.cuda.cudnn_graph import EnginePlan
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.gpu.nvidia import driver
from primbench.kernels.conv import Conv

SIZES: dict[str, Any] = {"n": 2, "c": 6, "h": 9, "w": 8, "k": 4, "r": 3, "s": 2, "groups": 2}
GEOMETRY: dict[str, Any] = {"pad_h": 1, "pad_w": 0, "stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 3}


class Described:
    """A descriptor that is only noted."""

    def __init__(self, kind: int, *attributes: cudnn_graph.Attribute) -> None:
        self.kind, self.values = kind, {name: list(values) for name, _, values in attributes}


@pytest.fixture(autouse=True)
def _no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cudnn_conv, cudnn_graph):
        monkeypatch.setattr(module, "Descriptor", Described)
    monkeypatch.setattr(cudnn, "version", lambda: "9.19.1")


def described(**options: Any) -> tuple[Any, list[dict[int, Any]]]:
    """The operation, and the attributes of its convolution, W, X and Y."""
    operation: Any = cudnn_conv.operation(Conv(**SIZES, **GEOMETRY, **options))
    return operation, [part.values for (part,) in list(operation.values.values())[2:]]


@pytest.mark.parametrize(
    ("direction", "kind", "first"), [("forward", 10, 700), ("bwd_data", 12, 706), ("bwd_weights", 11, 712)]
)
def test_a_direction_is_an_operation_that_overwrites_its_output(direction: str, kind: int, first: int) -> None:
    operation, parts = described(direction=direction)
    assert (kind, list(range(first, first + 6))) == (operation.kind, list(operation.values))
    assert ([1.0], [0.0]) == (operation.values[first], operation.values[first + 1])
    assert [[cudnn_conv.W], [cudnn_conv.X], [cudnn_conv.Y]] == [part[906] for part in parts[1:]]


def test_pads_strides_and_dilations_are_by_axis_and_sums_in_float32() -> None:
    _, (convolution, *_) = described(dtype="float16")
    names = {"axes": 106, "sums": 100, "mode": 101, "before": 105, "after": 104, "strides": 103, "dilations": 102}
    assert {
        "axes": [2], "sums": [0], "mode": [1], "before": [1, 0], "after": [1, 0], "strides": [2, 1],
        "dilations": [1, 3],
    } == {name: convolution[number] for name, number in names.items()}  # fmt: skip


def test_int8_sums_in_int32_and_gives_int32() -> None:
    _, (convolution, w, x, y) = described(dtype="int8")
    assert [[3], [3], [4], [4]] == [w[901], x[901], y[901], convolution[100]]


@pytest.mark.parametrize(
    ("layout", "strides"),
    [
        ("nchw", [[18, 6, 2, 1], [432, 72, 8, 1], [100, 25, 5, 1]]),
        ("nhwc", [[18, 1, 6, 3], [432, 1, 48, 6], [100, 1, 20, 4]]),
    ],
)
def test_tensors_are_n_c_h_w_with_the_strides_of_their_layout(layout: str, strides: list[list[int]]) -> None:
    _, (_, *tensors) = described(layout=layout)
    assert [[4, 3, 3, 2], [2, 6, 9, 8], [2, 4, 5, 5]] == [tensor[902] for tensor in tensors]
    assert strides == [tensor[903] for tensor in tensors]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"dtype": "float32"}, {"tensor cores", "inputs rounded"}),
        ({"dtype": "float32", "math_mode": "tf32"}, set()),
        ({"dtype": "float16"}, set()),
        ({"dtype": "bfloat16"}, set()),
    ],
)
def test_only_ieee_float32_refuses_tensor_cores_and_rounded_inputs(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], refused: set[str]
) -> None:
    asked: list[Any] = []

    def plans(*arguments: Any) -> list[Any]:
        asked.extend(arguments)
        return [SimpleNamespace(name="eng1")]

    monkeypatch.setattr(cudnn_graph, "plans", plans)
    cudnn_conv.plans(Conv(**SIZES, **options), c_void_p(0x99), 4096)
    _, handle, notes, limit_bytes, most = asked
    assert (0x99, refused, 4096, cudnn_conv.MAX_PLANS) == (handle.value, set(notes), limit_bytes, most)
    assert set(notes) <= set(cudnn_graph.NOTES.values())


def test_of_int8_engines_those_on_tensor_cores_alone_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, right = (SimpleNamespace(name="eng1", notes=notes) for notes in ((), ("tensor cores",)))
    found = [wrong, right]
    monkeypatch.setattr(cudnn_graph, "plans", lambda *_: found)
    asked = (Conv(**SIZES, dtype="int8"), c_void_p(0x99), 4096)
    assert [right] == cudnn_conv.plans(*asked)
    found.remove(right)
    with pytest.raises(UnsupportedCase, match="eng1 alone, which give wrong sums: ask for algo=implicit_gemm"):
        cudnn_conv.plans(*asked)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"dtype": "float32", "direction": "bwd_weights"}, ["eng1 k2=6"]),
        ({"dtype": "float32", "direction": "bwd_data"}, ["eng17 k25=0", "eng1 k2=6"]),
        ({"dtype": "float16", "direction": "bwd_weights"}, ["eng17 k25=0", "eng1 k2=6"]),
    ],
)
def test_an_engine_that_gives_wrong_gradients_of_filters_is_left_out(
    options: dict[str, Any], left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [SimpleNamespace(name=name) for name in ("eng17 k25=0", "eng1 k2=6")]
    monkeypatch.setattr(cudnn_graph, "plans", lambda *_: found)
    assert left == [plan.name for plan in cudnn_conv.plans(Conv(**SIZES, **options), c_void_p(0x99), 4096)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "bwd_data"}, "bwd_data float32 ieee nchw of these sizes: no engine"),
        ({"dtype": "int8"}, "forward int8 ieee nchw of .*: no engine; ask for layout=nhwc, c and k multiples of 4"),
    ],
)
def test_no_plan_names_the_version_and_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    def plans(*_: Any) -> None:
        raise UnsupportedCase("no engine")

    monkeypatch.setattr(cudnn_graph, "plans", plans)
    with pytest.raises(UnsupportedCase, match=f"cuDNN 9.19.1 has no conv {message}$"):
        cudnn_conv.plans(Conv(**SIZES, **options), c_void_p(0x99), 0)


def test_untried_the_first_that_runs_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "b" == timed(monkeypatch, {"a": None, "b": 3e-6, "c": 1e-6}, cudnn_conv.first).name
    with pytest.raises(UnsupportedCase, match="runs none"):
        timed(monkeypatch, {"a": None}, cudnn_conv.first)


def timed(
    monkeypatch: pytest.MonkeyPatch,
    times_s: dict[str, float | None],
    choose: Callable[..., EnginePlan] = cudnn_conv.fastest,
) -> EnginePlan:
    """What is chosen of plans that take that long; None: one that fails."""

    def device_s(name: Any, _: int) -> float:
        time_s = times_s[name]
        if time_s is None:
            raise cudnn.CudnnError(f"{name} fails")
        return time_s

    monkeypatch.setattr(cudnn_conv, "device_s", device_s)
    found: Any = [EnginePlan(None, name, (), 0) for name in times_s]  # type: ignore[arg-type]
    bind: Any = lambda plan: plan.name  # noqa: E731 - stands for a call
    return choose(found, bind, 0)


def test_the_fastest_of_those_that_run_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "c" == timed(monkeypatch, {"a": 3e-6, "b": None, "c": 1e-6, "d": 2e-6}).name


def test_of_plans_that_are_equally_fast_the_library_s_first_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "b" == timed(monkeypatch, {"a": 1.1e-6, "b": 1.005e-6, "c": 1e-6}).name


def test_a_broken_gpu_is_no_reason_to_try_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def device_s(*_: Any) -> float:
        raise driver.CudaError("cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(cudnn_conv, "device_s", device_s)
    with pytest.raises(driver.CudaError):
        cudnn_conv.fastest([EnginePlan(None, "a", (), 0)] * 2, lambda _: cudnn_graph.EngineCall(int, (), ()), 0)  # type: ignore[arg-type]


def test_plans_that_all_fail_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedCase, match=r"cuDNN 9.19.1 proposes 2 plans and runs none: b fails"):
        timed(monkeypatch, {"a": None, "b": None})


class Stream:
    """A GPU of whose stream every call takes ``call_s`` after ``launch_s``, the latter not in a graph."""

    def __init__(self, call_s: float, launch_s: float, capturable: bool = True) -> None:
        self.call_s, self.launch_s, self.capturable = call_s, launch_s, capturable
        self.now_s, self.capturing, self.calls = 0.0, 0, 0

    def execute(self, *_: Any) -> int:
        self.calls += 1
        if self.capturing:
            self.capturing += 1
        else:
            self.now_s += self.launch_s + self.call_s
        return 0

    def capture(self, _: int, enqueue: Any) -> Any:
        if not self.capturable:
            raise PrimbenchError("not captured")
        self.capturing = 1
        enqueue()
        calls, self.capturing = self.capturing - 1, 0

        class Graph:
            def launch(graph) -> None:  # noqa: N805 - self is the stream
                self.now_s += calls * self.call_s

        return Graph()

    def event(self) -> Any:
        class Event:
            def record(event, _: int) -> None:  # noqa: N805
                event.at_s = self.now_s

            def seconds_until(event, later: Any) -> float:  # noqa: N805
                return later.at_s - event.at_s  # type: ignore[no-any-return]

        return Event()

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> cudnn_graph.EngineCall:
        monkeypatch.setattr(driver, "Event", self.event)
        monkeypatch.setattr(driver, "capture", self.capture)
        monkeypatch.setattr(driver, "synchronize", lambda _: None)
        return cudnn_graph.EngineCall(self.execute, (), ())


def test_a_short_call_is_timed_without_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Stream(call_s=4e-6, launch_s=6e-6).take_over(monkeypatch)
    assert pytest.approx(4e-6) == cudnn_conv.device_s(call, 0)


def test_a_long_call_is_made_three_times_and_captured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(call_s=1e-3, launch_s=6e-6)
    assert pytest.approx(1e-3) == cudnn_conv.device_s(stream.take_over(monkeypatch), 0)
    assert 3 == stream.calls


@pytest.mark.parametrize(("call_s", "calls"), [(1e-2, 2), (0.5, 1)])
def test_what_takes_much_longer_than_another_way_is_not_called_again(
    call_s: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(call_s=call_s, launch_s=6e-6)
    call = stream.take_over(monkeypatch)
    assert pytest.approx(call_s, rel=1e-2) == trial.device_s(lambda: call.function(), 0, other_s=2e-3)
    assert calls == stream.calls


def test_a_call_that_cannot_be_captured_is_timed_with_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Stream(call_s=4e-6, launch_s=6e-6, capturable=False).take_over(monkeypatch)
    assert pytest.approx(10e-6) == cudnn_conv.device_s(call, 0)
