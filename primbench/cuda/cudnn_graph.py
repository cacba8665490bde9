"""cuDNN's graph API: descriptors that are made of attributes, the plans for an operation, and their calls.

The classic calls (cudnnConvolutionForward and its kin) are deprecated and reach only the engines that cuDNN 7 had a
number for; this API is what torch uses, and it says of each engine what it does to the numbers. Values and signatures
are those of cudnn_graph.h, cuDNN 9.19.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from ctypes import byref, c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

from primbench.cuda import cudnn
from primbench.errors import UnsupportedCase

# cudnnBackendDescriptorType_t
CONVOLUTION, TENSOR = 1, 17
_ENGINE, _ENGINE_CONFIG, _HEURISTICS, _PLAN, _KNOB_CHOICE, _OPERATION_GRAPH, _VARIANT_PACK = 2, 3, 4, 5, 7, 15, 16

# cudnnBackendAttributeType_t, and the C type of an element.
_HANDLE, DATA_TYPE, INT64, FLOAT = (0, c_void_p), (1, c_int), (3, c_int64), (4, ctypes.c_float)
_POINTER, CONVOLUTION_MODE, _HEURISTIC_MODE, _KNOB_TYPE = (6, c_void_p), (7, c_int), (8, c_int), (9, c_int)
_NUMERICAL_NOTE, DESCRIPTOR = (11, c_int), (15, c_void_p)

# cudnnBackendAttributeName_t
_HEURISTICS_MODE, _HEURISTICS_GRAPH, _HEURISTICS_RESULTS = 200, 201, 202
_CONFIG_ENGINE, _CONFIG_KNOBS, _KNOB_CHOICE_TYPE, _KNOB_CHOICE_VALUE = 300, 302, 600, 601
_PLAN_HANDLE, _PLAN_CONFIG, _PLAN_WORKSPACE_BYTES = 400, 401, 402
_GRAPH_HANDLE, _GRAPH_OPERATIONS = 800, 801
_TENSOR_ALIGNMENT, _TENSOR_DATA_TYPE, _TENSOR_DIMENSIONS, _TENSOR_STRIDES, _TENSOR_ID = 900, 901, 902, 903, 906
_PACK_IDS, _PACK_POINTERS, _PACK_WORKSPACE = 1000, 1001, 1003
_ENGINE_INDEX, _ENGINE_NOTES = 1301, 1303

# cudnnBackendHeurMode_t: what is thought to be fast, best first; then what runs at all. As torch asks.
_MODE_A, _MODE_FALLBACK = 3, 2

# cudnnBackendNumericalNote_t
NOTES = {
    0: "tensor cores",
    1: "inputs rounded",
    2: "partial sums rounded",
    3: "Fourier",
    4: "sums in any order",
    5: "Winograd",
    6: "tiles of 4x4",
    7: "tiles of 6x6",
    8: "tiles of 13x13",
    9: "NaN kept",
}
_UNTOLD = {"NaN kept"}  # a property that no number of a benchmark depends on

_MAX_KNOBS = 64  # the header has 44 types; of these choices the library counts none unless it is given room for them
_ALIGNMENT_BYTES = 16  # what torch promises of tensors that its allocator made; engines ask for no more

ElementType = tuple[int, Any]
Attribute = tuple[int, ElementType, Sequence[Any]]


class Descriptor:
    """A finalized cudnnBackendDescriptor_t, destroyed with this one; it keeps those alive that it is made of."""

    def __init__(self, kind: int, *attributes: Attribute) -> None:
        self._as_parameter_ = c_void_p()
        self._destroy = cudnn.library().cudnnBackendDestroyDescriptor
        self._parts = attributes
        cudnn.call("cudnnBackendCreateDescriptor", kind, byref(self._as_parameter_))
        if attributes:
            for attribute in attributes:
                self._set(*attribute)
            cudnn.call("cudnnBackendFinalize", self)

    def __del__(self) -> None:
        if self._as_parameter_:
            self._destroy(self._as_parameter_)

    @property
    def address(self) -> int | None:
        return self._as_parameter_.value

    def numbers(self, name: int, element: ElementType) -> list[Any]:
        """The values of an attribute."""
        values = (element[1] * self._count(name, element))()
        return list(values[: self._get(name, element, values)])

    def descriptors(self, name: int, kind: int, room: int | None = None) -> list[Descriptor]:
        """The descriptors that an attribute holds, at most ``room``; without it as many as the library counts."""
        found = [Descriptor(kind) for _ in range(self._count(name, DESCRIPTOR) if room is None else room)]
        values = (c_void_p * len(found))(*(each.address for each in found))
        return found[: self._get(name, DESCRIPTOR, values)]

    def _set(self, name: int, element: ElementType, values: Sequence[Any]) -> None:
        raw = [value.address if isinstance(value, Descriptor) else value for value in values]
        array = (element[1] * len(raw))(*raw)
        cudnn.call("cudnnBackendSetAttribute", self, name, element[0], c_int64(len(raw)), array)

    def _count(self, name: int, element: ElementType) -> int:
        return self._get(name, element, ())

    def _get(self, name: int, element: ElementType, values: Any) -> int:
        """How many there are; as many of them are written as ``values`` has room for."""
        count, room = c_int64(), c_int64(len(values))
        cudnn.call(
            "cudnnBackendGetAttribute", self, name, element[0], room, byref(count), values if len(values) else None
        )
        return count.value


@dataclass(frozen=True)
class EnginePlan:
    """An engine with its settings."""

    descriptor: Descriptor
    """The plan, as cuDNN has it."""
    name: str
    """"eng38 k2=5": numbers that mean something within one build of the library."""
    notes: tuple[str, ...]
    workspace_bytes: int
    """Scratch memory that it needs."""


def tensor(identity: int, dtype: str, shape: Sequence[int], strides: Sequence[int]) -> Descriptor:
    """shape: n c h w, whatever the order in memory, which is what the strides (in elements) tell."""
    return Descriptor(
        TENSOR,
        (_TENSOR_ID, INT64, [identity]),
        (_TENSOR_DATA_TYPE, DATA_TYPE, [cudnn.DATA_TYPE[dtype]]),
        (_TENSOR_DIMENSIONS, INT64, shape),
        (_TENSOR_STRIDES, INT64, strides),
        (_TENSOR_ALIGNMENT, INT64, [_ALIGNMENT_BYTES]),
    )


@dataclass(frozen=True)
class EngineCall:
    """``function(*arguments)`` enqueues a plan; it returns 0, or a status for ``cudnn.failure``."""

    function: Callable[..., int]
    arguments: tuple[Any, ...]
    parts: tuple[Descriptor, ...]  # what the arguments point to


def bound(plan: EnginePlan, handle: c_void_p, addresses: Mapping[int, int], workspace: int) -> EngineCall:
    """A plan on memory: addresses by the identities of the tensors; of the workspace, 0 where it takes none."""
    pack = Descriptor(
        _VARIANT_PACK,
        (_PACK_POINTERS, _POINTER, list(addresses.values())),
        (_PACK_IDS, INT64, list(addresses)),
        (_PACK_WORKSPACE, _POINTER, [workspace or None]),
    )
    # Converted beforehand: ctypes objects as arguments add 0.3 us to a call.
    pointers = (handle.value, plan.descriptor.address, pack.address)
    arguments = tuple(map(c_void_p.from_param, pointers))
    return EngineCall(cudnn.library().cudnnBackendExecute, arguments, (plan.descriptor, pack))


def plans(
    operation: Descriptor, handle: c_void_p, refused: Collection[str], limit_bytes: int, most: int
) -> list[EnginePlan]:
    """What can run an operation within a workspace, best first as the library thinks, and not more than ``most``.

    refused: notes that an engine must not have. Raises UnsupportedCase, with the library's last refusal, where there
    is none.
    """
    graph = Descriptor(
        _OPERATION_GRAPH, (_GRAPH_OPERATIONS, DESCRIPTOR, [operation]), (_GRAPH_HANDLE, _HANDLE, [handle.value])
    )
    found: dict[str, EnginePlan] = {}
    reason = f"no engine without {', '.join(sorted(refused))}" if refused else "no engine"
    for config in _configs(graph):
        name, notes = _name(config), _notes(config)
        if name in found or not set(refused).isdisjoint(notes):
            continue
        try:
            plan = Descriptor(_PLAN, (_PLAN_HANDLE, _HANDLE, [handle.value]), (_PLAN_CONFIG, DESCRIPTOR, [config]))
            (need_bytes,) = plan.numbers(_PLAN_WORKSPACE_BYTES, INT64)
        except (cudnn.CudnnError, cudnn.CudnnRefusal) as refusal:
            reason = str(refusal)
            continue
        if need_bytes > limit_bytes:
            reason = f"{name} needs a workspace of {need_bytes} bytes, {limit_bytes} are allowed or free"
            continue
        found[name] = EnginePlan(plan, name, notes, need_bytes)
        if len(found) == most:
            break
    if not found:
        raise UnsupportedCase(reason)
    return list(found.values())


def _configs(graph: Descriptor) -> Iterator[Descriptor]:
    for mode in (_MODE_A, _MODE_FALLBACK):
        try:
            heuristics = Descriptor(
                _HEURISTICS, (_HEURISTICS_GRAPH, DESCRIPTOR, [graph]), (_HEURISTICS_MODE, _HEURISTIC_MODE, [mode])
            )
            yield from heuristics.descriptors(_HEURISTICS_RESULTS, _ENGINE_CONFIG)
        except cudnn.CudnnRefusal:
            continue


def _name(config: Descriptor) -> str:
    (engine,) = config.descriptors(_CONFIG_ENGINE, _ENGINE)
    (index,) = engine.numbers(_ENGINE_INDEX, INT64)
    knobs = [
        (*choice.numbers(_KNOB_CHOICE_TYPE, _KNOB_TYPE), *choice.numbers(_KNOB_CHOICE_VALUE, INT64))
        for choice in config.descriptors(_CONFIG_KNOBS, _KNOB_CHOICE, _MAX_KNOBS)
    ]
    return " ".join([f"eng{index}", *(f"k{knob}={value}" for knob, value in sorted(knobs))])


def _notes(config: Descriptor) -> tuple[str, ...]:
    (engine,) = config.descriptors(_CONFIG_ENGINE, _ENGINE)
    notes = (NOTES.get(note, f"note {note}") for note in engine.numbers(_ENGINE_NOTES, _NUMERICAL_NOTE))
    return tuple(note for note in notes if note not in _UNTOLD)
