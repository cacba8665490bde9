"""A trace as torch.profiler writes it (Kineto's Chrome trace): what ran on the host and on GPUs, and where steps begin.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format); categories
and arguments: https://github.com/pytorch/kineto, libkineto/src/output_json.cpp. Times there are microseconds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from primbench.errors import FileError
from primbench.measurement.spans import around, by_thread, threads_inside
from primbench.problem.operators import (
    is_collective_kernel,
    is_collective_on_host,
    is_under_way,
    is_wait_for_gpu,
    is_wait_for_ranks,
)
from primbench.system.jsonlines import UNREADABLE, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

CHAKRA = ".et"
"""What names of Chakra's files of nodes, which are protobuf, end in."""
_NO_BEGINS = (
    "an execution trace (Chakra), which has the operators of a run and not what ran when, so that no wait is in it: "
    "explain the trace that torch.profiler wrote of the same run, with which it is linked"
)
_WAYS = "export_chrome_trace() and tensorboard_trace_handler() write one"
MOST_US = 30 * 86400 * 1e6
"""What no profiler records at once: thirty days."""
GpuWork = Literal["kernel", "collective", "copy"]
"""On a GPU: a kernel, also one that sets memory or copies within it; of a collective; between host and GPU."""
Doing = Literal["data", "wait", "ranks", "collective", "call"]
"""What the host does. data: it waits for the data loader; wait: for the GPU; ranks: for a collective. collective: its
CPUs are in one. call: it is in an operator of torch or a call of the driver.
"""

# Names that categories had in 2021, beside those of today.
_TODAY = {"operator": "cpu_op", "runtime": "cuda_runtime"}
_ON_GPU = re.compile(r"kernel|(gpu_)?mem(cpy|set)")
_DRIVER = re.compile(r"[a-z0-9]+_(runtime|driver)")
_STEP = re.compile(r"ProfilerStep#(\d+)")
_LOADER = re.compile(r"enumerate\(DataLoader\)")
_ON_HOST = ("user_annotation", "cpu_op")
_OLD_CALLS = "nccl:"  # of collectives, before they were operators
_BETWEEN = re.compile(r"HtoD|DtoH|Host -> Device|Device -> Host|HostToDevice|DeviceToHost")


class _Args(msgspec.Struct, gc=False):
    correlation: int | str | None = None
    device: int | str | None = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int | str | None = None
    args: _Args | None = None


class _Ranks(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None


class _Gpu(msgspec.Struct):
    name: str = ""


class _File(msgspec.Struct):
    events: list[_Event] | None = msgspec.field(name="traceEvents", default=None)
    schema: str | int | None = None
    ranks: _Ranks | None = msgspec.field(name="distributedInfo", default=None)
    gpus: list[_Gpu] = msgspec.field(name="deviceProperties", default=[])


class OnGpu(NamedTuple):
    """Something that ran on a GPU."""

    begin_s: float
    end_s: float
    name: str
    work: GpuWork
    launch: HostCall | None
    """The call that started it, where the trace has it."""


class HostCall(NamedTuple):
    """Something that ran on the host."""

    begin_s: float
    end_s: float
    name: str
    doing: Doing
    thread: object


@dataclass
class TraceFile:
    """What is in one file."""

    path: str
    on_gpu: list[OnGpu] = field(default_factory=list)
    """In the order in which they began, of one GPU: that which ran longest."""
    calls: list[HostCall] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each, as the host saw it; none where the script told the profiler of none."""
    rank: int | None = None
    world_size: int | None = None
    gpu: str = ""
    """Its name; "" where the trace has none."""
    untimed: int = 0
    """Events whose begin or length is no time that can be, which are none of the above."""
    unseen: int = 0
    """Calls of a driver, of a trace that has nothing of what they started."""


def read(path: str) -> TraceFile:
    """Times in it count from its first event. Raises FileError for what is no such trace."""
    events, ranks, gpus = _decoded(path, _text(path))
    timed = [event for event in events if event.ph == "X" and event.cat]
    whole = _relative(timed)
    calls = [call for event in whole if (call := _call(event)) is not None]
    on_gpu = _on_gpu(whole)
    if not any(event.dur > 0 for event in whole) or not (calls or on_gpu):
        raise FileError(f"{path}: nothing in it took any time: record activities=[CPU, CUDA] with torch.profiler")
    return TraceFile(
        path, on_gpu, calls, _steps(whole), ranks.rank, ranks.world_size, untimed=len(timed) - len(whole),
        **_of_gpu(gpus, whole, on_gpu),
    )  # fmt: skip


def _of_gpu(gpus: Sequence[_Gpu], events: Sequence[_Event], on_gpu: Sequence[OnGpu]) -> dict[str, Any]:
    """Its name, or how much was started of which the trace has nothing."""
    return {"gpu": gpus[0].name if gpus else ""} if on_gpu else {"unseen": len(_launches(events))}


def _relative(timed: Sequence[_Event]) -> list[_Event]:
    """Those whose times can be, from the first one's begin on: microseconds since 1970 leave a float no nanoseconds.

    Set aside is what is no number, ends before it begins, or is longer than MOST_US or so far from the others.
    """
    events = [event for event in timed if 0 <= event.dur <= MOST_US and math.isfinite(event.ts)]
    middle = median_low([event.ts for event in events]) if events else 0.0
    events = [event for event in events if abs(event.ts - middle) <= MOST_US]
    first = min((event.ts for event in events), default=0.0)
    for event in events:
        event.ts = event.ts - first
    return events


def _on_gpu(events: Sequence[_Event]) -> list[OnGpu]:
    """Of the GPU that computed longest, in the order in which they began."""
    launches = _launches(events)
    found: dict[object, list[OnGpu]] = {}
    for event in events:
        if _ON_GPU.fullmatch(category := _category(event)):
            args = event.args or _Args()
            ran = OnGpu(*_span(event), event.name, _work(category, event.name), launches.get(args.correlation))
            found.setdefault(args.device, []).append(ran)
    most = max(found.values(), key=lambda several: sum(each.end_s - each.begin_s for each in several), default=[])
    return sorted(most, key=lambda each: each.begin_s)


def _text(path: str) -> bytes:
    try:
        with opened(Path(path)) as file:
            text = file.read()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if path.endswith(CHAKRA):
        raise FileError(f"{path}: {_NO_BEGINS}")
    return text


def _decoded(path: str, text: bytes) -> tuple[Sequence[_Event], _Ranks, Sequence[_Gpu]]:
    """Of a trace, or of its events alone, as a list of them is one, too."""
    try:
        if text.lstrip()[:1] == b"[":
            return msgspec.json.decode(text, type=list[_Event], strict=False), _Ranks(), []
        found = msgspec.json.decode(text, type=_File, strict=False)
    except UNREADABLE as error:
        raise FileError(f"{path}: no trace of torch.profiler: {error}: {_WAYS}") from None
    if found.events is None:
        is_chakra = "chakra" in str(found.schema)
        words = _NO_BEGINS if is_chakra else f"no trace of torch.profiler: without traceEvents: {_WAYS}"
        raise FileError(f"{path}: {words}")
    return found.events, found.ranks or _Ranks(), found.gpus


def _category(event: _Event) -> str:
    low = (event.cat or "").lower()
    return _TODAY.get(low, low)


def _span(event: _Event) -> tuple[float, float]:
    begin_s = event.ts * 1e-6
    return begin_s, begin_s + event.dur * 1e-6


def _call(event: _Event) -> HostCall | None:
    """None of what says nothing of what the host does."""
    doing = _doing(_category(event), event.name)
    return None if doing is None else HostCall(*_span(event), event.name, doing, event.tid)


def _doing(category: str, name: str) -> Doing | None:
    if _DRIVER.fullmatch(category):
        return "wait" if is_wait_for_gpu(name) else "call"
    if category in _ON_HOST and _LOADER.match(name):
        return "data"
    if category == "cpu_op" and is_wait_for_ranks(name):
        return "ranks"
    if category in _ON_HOST and is_collective_on_host(name):
        return "collective"
    return _of_operator(name) if category == "cpu_op" else None


def _of_operator(name: str) -> Doing | None:
    return "call" if is_under_way(name) or name.startswith(_OLD_CALLS) else None


def _launches(events: Iterable[_Event]) -> dict[object, HostCall]:
    """The driver's calls by the number that what they start has, too."""
    found: dict[object, HostCall] = {}
    for event in events:
        if _DRIVER.fullmatch(_category(event)) and event.args and event.args.correlation is not None:
            found[event.args.correlation] = HostCall(*_span(event), event.name, "call", event.tid)
    return found


def _work(category: str, name: str) -> GpuWork:
    if category != "kernel":
        return "copy" if _BETWEEN.search(name) else "kernel"
    return "collective" if is_collective_kernel(name) else "kernel"


def _steps(events: Iterable[_Event]) -> list[tuple[float, float]]:
    """Each once, whichever thread and device it is noted on."""
    found = dict[int, tuple[float, float]]()
    for event in events:
        if (named := _STEP.fullmatch(event.name)) and _category(event) in _ON_HOST:
            found.setdefault(int(named[1]), _span(event))
    return [found[number] for number in sorted(found)]


def working(calls: Sequence[HostCall]) -> Callable[[HostCall], list[tuple[float, float]]]:
    """When a call of these was under way and did not wait for a collective, as an operator does that is given a tensor
    which one makes; never where it is an operator that a collective by CPUs calls itself, on a thread of its own.
    """
    spans: dict[Doing, Mapping[object, list[tuple[float, float]]]] = {
        doing: by_thread((call.thread, call.begin_s, call.end_s) for call in calls if call.doing == doing)
        for doing in ("collective", "ranks")
    }
    own = threads_inside(spans["collective"], ((call.thread, call.begin_s) for call in calls if call.doing == "call"))

    def spans_of(call: HostCall) -> list[tuple[float, float]]:
        if call.doing != "call":
            return [(call.begin_s, call.end_s)]
        waits = spans["ranks"].get(call.thread, [])
        return [] if call.thread in own else [*around(waits, call.begin_s, call.end_s)]

    return spans_of
