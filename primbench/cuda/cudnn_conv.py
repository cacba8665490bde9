"""2-D convolution and its gradients by cuDNN's graph API: the operation, and which plan for it is the fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from primbench.cuda import cudnn, cudnn_graph, trial
from primbench.cuda.cudnn_graph import CONVOLUTION_MODE, DATA_TYPE, DESCRIPTOR, FLOAT, INT64, Descriptor, EnginePlan
from primbench.errors import UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from ctypes import c_void_p

X, W, Y = 1, 2, 3  # identities of the tensors, gradients included

_CROSS_CORRELATION = 1  # the filter is not flipped
# cudnnBackendDescriptorType_t, and the first of six cudnnBackendAttributeName_t: alpha, beta, convolution, W, X, Y.
_OPERATION = {"forward": (10, 700), "bwd_data": (12, 706), "bwd_weights": (11, 712)}
# cudnnBackendAttributeName_t
_SUM_TYPE, _MODE, _DILATIONS, _STRIDES, _PADS_AFTER, _PADS_BEFORE, _SPATIAL_AXES = 100, 101, 102, 103, 104, 105, 106

# An engine on float32 that has the first works in tf32, one that has the second in fewer bits still.
_NOT_IEEE = ("tensor cores", "inputs rounded")

MAX_PLANS = 10  # as many as torch tries
_EQUAL = 1.01


class ConvAxis(Protocol):
    @property
    def pad(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def dilation(self) -> int: ...


class Convolution(Protocol):
    """As primbench.kernels.conv has it: shapes in the order in memory, n c h w or n h w c by ``layout``."""

    @property
    def direction(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def sum_dtype(self) -> str: ...
    @property
    def out_dtype(self) -> str: ...
    @property
    def math_mode(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def axes(self) -> Sequence[ConvAxis]: ...
    @property
    def image_shape(self) -> tuple[int, ...]: ...
    @property
    def filter_shape(self) -> tuple[int, ...]: ...
    @property
    def response_shape(self) -> tuple[int, ...]: ...


def plans(problem: Convolution, handle: c_void_p, limit_bytes: int) -> list[EnginePlan]:
    """Raises UnsupportedCase where no engine can do it within a workspace of that size."""
    refused = _NOT_IEEE if (problem.dtype, problem.math_mode) == ("float32", "ieee") else ()
    try:
        found = cudnn_graph.plans(operation(problem), handle, refused, limit_bytes, MAX_PLANS)
    except UnsupportedCase as reason:
        what = f"{problem.direction} {problem.dtype} {problem.math_mode} {problem.layout}"
        hint = "; ask for layout=nhwc, c and k multiples of 4" if problem.dtype == "int8" else ""
        raise UnsupportedCase(f"cuDNN {cudnn.version()} has no conv {what} of these sizes: {reason}{hint}") from None
    right = [plan for plan in found if not _is_wrong(problem, plan)]
    if not right:
        names = ", ".join(plan.name for plan in found)
        raise UnsupportedCase(f"cuDNN proposes {names} alone, which give wrong sums: ask for algo=implicit_gemm")
    return right


def _is_wrong(problem: Convolution, plan: EnginePlan) -> bool:
    """What cuDNN 9.19 proposes although it is not what was asked for, and no note says so.

    Engines without tensor cores write wrong int32 sums of int8. Engine 17's gradients of 5x5 filters of float32 are
    1.5 % off, in each of 20 problems on an H200.
    """
    if problem.dtype == "int8":
        return "tensor cores" not in plan.notes
    return (problem.dtype, problem.direction, plan.name.split()[0]) == ("float32", "bwd_weights", "eng17")


def operation(problem: Convolution) -> Descriptor:
    """The groups follow from the channels of image and filter."""
    kind, first = _OPERATION[problem.direction]
    values = (
        (FLOAT, 1.0),
        (FLOAT, 0.0),
        (DESCRIPTOR, _convolution(problem)),
        (DESCRIPTOR, _tensor(W, problem, problem.filter_shape, problem.dtype)),
        (DESCRIPTOR, _tensor(X, problem, problem.image_shape, problem.dtype)),
        (DESCRIPTOR, _tensor(Y, problem, problem.response_shape, problem.out_dtype)),
    )
    return Descriptor(kind, *((first + number, element, [value]) for number, (element, value) in enumerate(values)))


def _convolution(problem: Convolution) -> Descriptor:
    pads = [axis.pad for axis in problem.axes]
    return Descriptor(
        cudnn_graph.CONVOLUTION,
        (_SPATIAL_AXES, INT64, [len(pads)]),
        (_SUM_TYPE, DATA_TYPE, [cudnn.DATA_TYPE[problem.sum_dtype]]),
        (_MODE, CONVOLUTION_MODE, [_CROSS_CORRELATION]),
        (_PADS_BEFORE, INT64, pads),
        (_PADS_AFTER, INT64, pads),
        (_STRIDES, INT64, [axis.stride for axis in problem.axes]),
        (_DILATIONS, INT64, [axis.dilation for axis in problem.axes]),
    )


def _tensor(identity: int, problem: Convolution, stored: tuple[int, ...], dtype: str) -> Descriptor:
    order = (0, 1, 2, 3) if problem.layout == "nchw" else (0, 3, 1, 2)
    strides = cudnn.contiguous(stored)
    return cudnn_graph.tensor(identity, dtype, [stored[i] for i in order], [strides[i] for i in order])


def _times_s(
    found: Sequence[EnginePlan], bind: Callable[[EnginePlan], cudnn_graph.EngineCall], stream_handle: int
) -> Iterator[tuple[float, EnginePlan]]:
    """Seconds and plan, of those that run. Raises UnsupportedCase where none does."""
    has_run, reason = False, ""
    for plan in found:
        try:
            yield device_s(bind(plan), stream_handle), plan
            has_run = True
        except (cudnn.CudnnError, cudnn.CudnnRefusal) as refusal:  # some engines refuse only when they are called
            reason = str(refusal)
    if not has_run:
        raise UnsupportedCase(f"cuDNN {cudnn.version()} proposes {len(found)} plans and runs none: {reason}")


def first(
    found: Sequence[EnginePlan], bind: Callable[[EnginePlan], cudnn_graph.EngineCall], stream_handle: int
) -> EnginePlan:
    """The first plan that runs. Raises UnsupportedCase where none does."""
    return next(_times_s(found, bind, stream_handle))[1]


def fastest(
    found: Sequence[EnginePlan], bind: Callable[[EnginePlan], cudnn_graph.EngineCall], stream_handle: int
) -> EnginePlan:
    """The first plan that takes no longer than the quickest, but for what a short trial cannot tell.

    So that two processes take the same one of several that are equally fast. Raises UnsupportedCase where none runs.
    """
    timed = list(_times_s(found, bind, stream_handle))
    least_s = min(time_s for time_s, _ in timed)
    return next(plan for time_s, plan in timed if time_s <= _EQUAL * least_s)


def device_s(call: cudnn_graph.EngineCall, stream_handle: int) -> float:
    return trial.device_s(lambda: cudnn.check(call.function(*call.arguments), "cudnnBackendExecute"), stream_handle)
