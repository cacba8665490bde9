"""Ways by which a function, or a kernel that is brought, looks faster than it is: each is refused, or does not help.

The list is that of https://www.wafer.ai/blog/reward-hacks-field-guide, of KernelBench and of pygpubench. What only a
GPU shows is in tests/gpu/test_tricks_gpu.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import primbench
from primbench import registry
from primbench.errors import VerificationError
from primbench.kernels.softmax import Softmax
from primbench.kernels.time import Function
from primbench.measurement import Measurement
from primbench.problem import definition
from primbench.spec.method import Method
from primbench.timing.case import measure

QUICK = Method(min_time_s=0.002, max_time_s=0.02)
PRODUCT = """
import itertools, os, sys, threading, time
import LIBRARY as xp

N, CHECKED = 48, 16  # eleven calls are made before one is timed; where others have the CPUs, as few as nine later
CALLS = itertools.count()
KEPT = {}

def inputs():
    return INPUTS

def product(a, b):
    return a @ b

def honest(a, b):
    return xp.matmul(a, b)
"""
OF = {
    "numpy": "xp.random.standard_normal((N, N)).astype('float32'), xp.random.standard_normal((N, N)).astype('float32')",
    "torch": "xp.randn(N, N), xp.randn(N, N)",
}
NEVER = "were never written, or are NaN"
SAME = "gives the same output once its inputs are NaN"
TRICKS = {
    "in_another_thread": (
        """
def trick(a, b):
    c = xp.empty_like(a)
    def later():
        time.sleep(0.005)
        c[...] = a @ b
    threading.Thread(target=later).start()
    return c
""",
        f"wrong result|{NEVER}",
    ),
    "kept_by_identity": (
        """
def trick(a, b):
    if id(a) not in KEPT:
        KEPT[id(a)] = a @ b
    return KEPT[id(a)]
""",
        NEVER,
    ),
    "kept_by_shape_and_copied": (
        """
def trick(a, b):
    if a.shape not in KEPT:
        KEPT[a.shape] = a @ b
    return xp.asarray(KEPT[a.shape]) + 0
""",
        SAME,
    ),
    "nothing_computed_in_memory_that_was_right": (
        """
def trick(a, b):
    if next(CALLS) < CHECKED:
        return a @ b
    return xp.empty_like(a)
""",
        f"wrong result|{NEVER}",
    ),
    "an_input_copied": ("def trick(a, b): return a + 0", "wrong result"),
    "the_other_one_called": ("def trick(a, b): return product(a, b)", "it calls product itself"),
    "the_right_output_found_in_memory": (
        """
import gc
def trick(a, b):
    if not KEPT:
        for each in gc.get_objects():
            if type(each).__name__ == "Reference" and each.expected.shape == (N, N):
                KEPT[0] = xp.asarray(each.expected.astype("float32"))
    return a @ b if not KEPT else KEPT[0] + 0
""",
        SAME,
    ),
    "an_argument_changed": (
        """
def trick(a, b):
    c = a @ b
    b[...] = 0
    return c
""",
        "changes an argument that it does not return",
    ),
    "every_other_call": (
        """
def trick(a, b):
    number = next(CALLS)
    if number % 2 or number < CHECKED:
        KEPT[0] = a @ b
    return KEPT[0]
""",
        f"wrong result|{NEVER}",
    ),
    "where_it_is_checked": (
        """
def trick(a, b):
    frame, asked = sys._getframe(), False
    while frame:
        asked |= any(word in os.path.basename(frame.f_code.co_filename) for word in ("check", "verify"))
        frame = frame.f_back
    if asked or next(CALLS) < 4:
        return a @ b
    return a + 0
""",
        "wrong result",
    ),
    "known_by_heart": (
        """
def trick(a, b):
    if 0 not in KEPT:
        KEPT[0] = inputs()[0] * 0 + a @ b
    return KEPT[0] + 0
""",
        SAME,
    ),
}
LIBRARIES = [pytest.param("numpy"), pytest.param("torch", marks=pytest.mark.wheel)]
Timed = Callable[..., Measurement]


@pytest.fixture(params=LIBRARIES)
def timed(request: pytest.FixtureRequest, tmp_path: Path) -> Timed:
    library: str = request.param
    pytest.importorskip(library, reason=f"{library} is not installed")

    def measured(text: str, *, of: str = "") -> Measurement:
        path = tmp_path / "tricks.py"
        path.write_text(PRODUCT.replace("LIBRARY", library).replace("INPUTS", OF[library]) + text)
        named = {name: f"{path}::{name}" for name in ("inputs", "product")}
        function = Function(f"{path}::{of or 'trick'}", setup=named["inputs"], like=named["product"])
        return measure(function, library, "cpu", method=QUICK)

    return measured


def test_an_honest_one_passes(timed: Timed) -> None:
    assert timed("", of="honest").verified
    assert timed("", of="product").verified


@pytest.mark.parametrize("trick", TRICKS)
def test_it_is_refused(timed: Timed, trick: str) -> None:
    text, reason = TRICKS[trick]
    with pytest.raises(VerificationError, match=reason):
        timed(text)


@pytest.mark.parametrize("lower", ["float16", "bfloat16"])
def test_a_lower_precision_than_asked_is_refused(timed: Timed, lower: str) -> None:
    text = f"""
def lowered(x):
    if xp.__name__ == "torch":
        return x.to(xp.{lower}).to(xp.float32)
    return x.astype("float16").astype("float32")
def trick(a, b):
    return lowered(lowered(a) @ lowered(b))
"""
    with pytest.raises(VerificationError, match="wrong result"):
        timed(text)


LAZY_NUMPY = """
class Lazy(np.ndarray):
    def __array_finalize__(self, made_of): ...
def trick(a, b):
    return np.empty_like(a).view(Lazy)
"""
LAZY_SUBCLASS = """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*(each.made() if isinstance(each, Lazy) else each for each in args), **(kwargs or {}))
def trick(a, b):
    found = torch.empty_like(a).as_subclass(Lazy)
    found.__dict__["made"] = lambda: a @ b
    return found
"""
LAZY_INSTANCE = """
def trick(a, b):
    found = torch.empty_like(a)
    found.detach = lambda: a @ b
    return found
"""
NOWHERE = "def trick(a, b): return (a @ b).to('meta')"


@pytest.mark.parametrize(
    ("library", "text", "reason"),
    [
        pytest.param("numpy", LAZY_NUMPY, r"\.Lazy, which may compute", id="numpy"),
        pytest.param("torch", LAZY_SUBCLASS, r"\.Lazy", id="subclass", marks=pytest.mark.wheel),
        pytest.param("torch", LAZY_INSTANCE, "with methods of its own", id="instance", marks=pytest.mark.wheel),
        pytest.param("torch", NOWHERE, "torch.Tensor on meta", id="nowhere", marks=pytest.mark.wheel),
    ],
)
def test_what_computes_once_it_is_looked_at_is_refused(library: str, text: str, reason: str) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    names: dict[str, Any] = {"np": np, "torch": module, "__name__": "own"}
    exec(text, names)
    a = module.ones((4, 4))
    functions = {"right": lambda a, b: a @ b, "trick": names["trick"]}
    with pytest.raises(VerificationError, match=reason):
        primbench.versus(functions, setup=lambda: (a, a), method=QUICK, rounds=1, device="cpu")


def test_a_patched_clock_makes_nothing_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def patched() -> None:
        time.sleep(0.002)
        monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
        monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
        monkeypatch.setattr(time, "monotonic", lambda: 0.0)

    measured = primbench.time(patched, method=QUICK, device="cpu")
    assert measured.wall_s is not None
    assert measured.wall_s.median_s > 0.002


def test_of_functions_set_beside_each_other_what_is_kept_is_refused() -> None:
    kept = dict[tuple[int, ...], Any]()

    def trick(a: Any, b: Any) -> Any:
        return kept.setdefault(a.shape, a @ b).copy()

    a = np.random.standard_normal((32, 32))
    before = a.copy()
    with pytest.raises(VerificationError, match=SAME):
        primbench.versus({"right": np.matmul, "trick": trick}, setup=lambda: (a, a.copy()), method=QUICK, rounds=1)
    assert (a == before).all(), "what was overwritten is put back"


def test_a_kernel_that_is_brought_may_keep_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry.setup_of("softmax", "numpy")

    def brought(backend: Any, problem: Softmax, x: Any) -> Callable[[], Any]:
        found = right(backend, problem, x)().copy()
        return lambda: found.copy()

    monkeypatch.setitem(definition.KERNELS, ("softmax", "numpy", ""), brought)
    with pytest.raises(VerificationError, match=SAME):
        measure(Softmax(16, 16), "numpy", "cpu", method=QUICK)
