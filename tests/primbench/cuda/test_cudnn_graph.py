"""cuDNN's graph API against a stand-in for the library."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_void_p
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.cuda import cudnn, cudnn_graph
from primbench.cuda.cudnn_graph import INT64, Descriptor, EnginePlan
from primbench.errors import UnsupportedCase

NOT_SUPPORTED_SHAPE = 3002
HEURISTICS, PLAN, DESCRIPTOR = 4, 5, 15
C_TYPES = {
    0: c_void_p, 1: c_int, 3: c_int64, 4: ctypes.c_float, 6: c_void_p, 7: c_int, 8: c_int, 9: c_int, 11: c_int,
    15: c_void_p,
}  # fmt: skip


class Library:
    """The functions of cudnn_graph.h that are used, with its prototypes; ``alive``: made and not destroyed.

    ``engines``: by heuristic mode, (index, knobs, notes, workspace in bytes or None where no plan can be made of it).
    """

    def __init__(self) -> None:
        self.alive: dict[Any, dict[Any, Any]] = {}
        self.engines: dict[int, list[tuple[int, dict[int, int], list[int], int | None]]] = {}
        self.executed: list[tuple[int, ...]] = []
        self.execute_status = 0
        self.made = 0
        self.callbacks: list[Any] = []
        self.functions: Any = SimpleNamespace(
            cudnnGetErrorString=lambda status: b"STATUS_%d" % status,
            cudnnGetLastErrorString=lambda *_: None,
            cudnnBackendCreateDescriptor=self._function(self._create, c_int, POINTER(c_void_p)),
            cudnnBackendDestroyDescriptor=self._function(self._destroy, c_void_p),
            cudnnBackendSetAttribute=self._function(self._set, c_void_p, c_int, c_int, c_int64, c_void_p),
            cudnnBackendGetAttribute=self._function(
                self._get, c_void_p, c_int, c_int, c_int64, POINTER(c_int64), c_void_p
            ),
            cudnnBackendFinalize=self._function(self._finalize, c_void_p),
            cudnnBackendExecute=self._function(self._execute, c_void_p, c_void_p, c_void_p),
        )

    def _function(self, python: Any, *types: Any) -> Any:
        """A C function called as one of a ctypes.CDLL is: nothing is known of its argument types."""
        callback = CFUNCTYPE(c_int, *types)(python)
        self.callbacks.append(callback)
        return CFUNCTYPE(c_int)(ctypes.cast(callback, c_void_p).value or 0)

    def _create(self, kind: int, out: Any) -> int:
        self.made += 0x1000
        self.alive[self.made] = {"kind": kind}
        out[0] = self.made
        return 0

    def _destroy(self, target: int) -> int:
        del self.alive[target]
        return 0

    def _set(self, target: int, name: int, element: int, count: int, values: int) -> int:
        self.alive[target][name] = list((C_TYPES[element] * count).from_address(values))
        return 0

    def _finalize(self, target: int) -> int:
        made = self.alive[target]
        if made["kind"] == HEURISTICS:
            made[202] = self.engines.get(made[200][0], [])
            return 0 if made[202] else NOT_SUPPORTED_SHAPE
        if made["kind"] == PLAN:
            made[402] = [self.alive[made[401][0]]["engine"][3]]
            return NOT_SUPPORTED_SHAPE if made[402] == [None] else 0
        return 0

    def _get(self, target: int, name: int, element: int, room: int, count: Any, values: int | None) -> int:
        made = self.alive[target]
        found = self._found(made, name)
        # Of knobs the real library counts none unless it is given room.
        count[0] = 0 if name == 302 and not room else min(len(found), room) if room else len(found)
        if values:
            array = (C_TYPES[element] * room).from_address(values)
            for number, value in enumerate(found[:room]):
                if element == DESCRIPTOR:
                    self.alive[array[number]] |= value
                else:
                    array[number] = value
        return 0

    def _found(self, made: dict[Any, Any], name: int) -> list[Any]:
        if name == 202:
            return [{"engine": engine} for engine in made[202]]
        if name == 300:
            return [{"engine": made["engine"]}]
        if name == 302:
            return [{600: [knob], 601: [value]} for knob, value in made["engine"][1].items()]
        if name == 1301:
            return [made["engine"][0]]
        return made["engine"][2] if name == 1303 else made[name]  # type: ignore[no-any-return]

    def _execute(self, handle: int, plan: int, pack: int) -> int:
        self.executed.append((handle, plan, pack))
        return self.execute_status


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    stand_in = Library()
    monkeypatch.setattr(cudnn, "library", lambda: stand_in.functions)
    return stand_in


HANDLE = c_void_p(0x99)
MODE_A, MODE_FALLBACK = 3, 2
TENSOR_CORES, ANY_ORDER, NAN_KEPT = 0, 4, 9


def plans(refused: tuple[str, ...] = (), limit_bytes: int = 1000, most: int = 10) -> list[EnginePlan]:
    operation = cudnn_graph.tensor(1, "float32", (1, 1, 1, 1), (1, 1, 1, 1))
    return cudnn_graph.plans(operation, HANDLE, refused, limit_bytes, most)


def test_a_tensor_has_its_sizes_and_strides(library: Library) -> None:
    made = cudnn_graph.tensor(7, "float16", (2, 3, 5, 4), (60, 1, 12, 3))
    attributes = library.alive[made.address]
    assert [[7], [2], [2, 3, 5, 4], [60, 1, 12, 3], [16]] == [attributes[name] for name in (906, 901, 902, 903, 900)]


def test_plans_come_in_the_library_s_order_and_fallbacks_last(library: Library) -> None:
    library.engines = {MODE_FALLBACK: [(0, {}, [], 0)], MODE_A: [(62, {13: 1, 2: 7}, [TENSOR_CORES], 64)]}
    first, second = plans()
    assert ("eng62 k2=7 k13=1", ("tensor cores",), 64) == (first.name, first.notes, first.workspace_bytes)
    assert ("eng0", (), 0) == (second.name, second.notes, second.workspace_bytes)


def test_there_are_not_more_plans_than_asked_for(library: Library) -> None:
    library.engines = {MODE_A: [(number, {}, [], 0) for number in range(5)]}
    assert ["eng0", "eng1", "eng2"] == [plan.name for plan in plans(most=3)]


def test_settings_proposed_twice_make_one_plan(library: Library) -> None:
    library.engines = {MODE_A: [(1, {2: 3}, [], 0), (1, {2: 4}, [], 0)], MODE_FALLBACK: [(1, {2: 3}, [], 0)]}
    assert ["eng1 k2=3", "eng1 k2=4"] == [plan.name for plan in plans()]


def test_an_engine_with_a_refused_note_is_left_out(library: Library) -> None:
    library.engines = {MODE_A: [(1, {}, [TENSOR_CORES, ANY_ORDER], 0), (2, {}, [ANY_ORDER, NAN_KEPT], 0)]}
    (left,) = plans(refused=("tensor cores",))
    assert ("eng2", ("sums in any order",)) == (left.name, left.notes)


def test_an_unknown_note_is_shown_by_its_number(library: Library) -> None:
    library.engines = {MODE_A: [(1, {}, [77], 0)]}
    assert ("note 77",) == plans()[0].notes


def test_what_cannot_be_planned_or_needs_too_much_is_left_out(library: Library) -> None:
    library.engines = {MODE_A: [(1, {}, [], None), (2, {}, [], 1001), (3, {}, [], 1000)]}
    assert ["eng3"] == [plan.name for plan in plans(limit_bytes=1000)]


@pytest.mark.parametrize(
    ("engines", "reason"),
    [
        ([(1, {}, [], None)], "cudnnBackendFinalize: STATUS_3002"),
        ([(1, {}, [], 1001)], "eng1 needs a workspace of 1001 bytes, 1000 are allowed or free"),
        ([(1, {}, [TENSOR_CORES], 0)], "no engine without tensor cores"),
        ([], "no engine without tensor cores"),
    ],
)
def test_no_plan_is_unsupported_and_says_what_was_last_refused(library: Library, engines: Any, reason: str) -> None:
    library.engines = {MODE_A: engines}
    with pytest.raises(UnsupportedCase) as refusal:
        plans(refused=("tensor cores",))
    assert reason == str(refusal.value)


def test_a_call_executes_its_plan_on_its_memory(library: Library) -> None:
    library.engines = {MODE_A: [(1, {}, [], 8)]}
    (plan,) = plans()
    call = cudnn_graph.bound(plan, HANDLE, {1: 0x10, 2: 0x20}, 0x30)
    assert 0 == call.function(*call.arguments)
    ((handle, executed, pack),) = library.executed
    assert (HANDLE.value, plan.descriptor.address) == (handle, executed)
    given = library.alive[pack]
    assert ([1, 2], [0x10, 0x20], [0x30]) == (given[1000], given[1001], given[1003])


def test_a_plan_without_workspace_is_given_none(library: Library) -> None:
    library.engines = {MODE_A: [(1, {}, [], 0)]}
    call = cudnn_graph.bound(plans()[0], HANDLE, {1: 0x10}, 0)
    assert [None] == library.alive[call.parts[1].address][1003]


def test_a_descriptor_keeps_its_parts_alive_and_no_longer(library: Library) -> None:
    inner = Descriptor(cudnn_graph.TENSOR, (902, INT64, [1]))
    outer = Descriptor(15, (801, cudnn_graph.DESCRIPTOR, [inner]))
    del inner
    assert 2 == len(library.alive)
    del outer
    assert {} == library.alive
