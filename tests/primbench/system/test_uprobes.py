"""Calls counted by the kernel, held against those made: of a library with the entry points of the CUDA driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from primbench.doctor.job import ENTRY_POINTS
from primbench.system import uprobes
from primbench.system.elf import exported
from primbench.system.uprobes import CountedCalls, check_counting, counted

CALLS = 1000


@pytest.fixture
def allowed() -> None:
    try:
        check_counting()
    except (OSError, LookupError) as error:
        pytest.skip(f"needs root's leave for uprobes: {error}")


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("function", ENTRY_POINTS)
@pytest.mark.parametrize("way", ["dlsym", "cuGetProcAddress"])
def test_each_call_is_counted_however_its_address_was_found(function: str, way: str, driver: Path) -> None:
    loaded = ctypes.CDLL(str(driver))
    call: Callable[[], int] = getattr(loaded, function)
    if way == "cuGetProcAddress":
        address = ctypes.c_void_p()
        assert 0 == loaded.cuGetProcAddress_v2(function.encode(), ctypes.byref(address))
        call = ctypes.CFUNCTYPE(ctypes.c_int)(address.value or 0)
    with counted(driver, exported(driver, [function])[function], threading.get_native_id()) as count:
        before = count()
        for _ in range(CALLS):
            call()
        after = count()
    assert CALLS == after.calls - before.calls
    assert after.ran_s > before.ran_s


@pytest.mark.usefixtures("allowed")
def test_only_calls_of_that_thread_are_counted(driver: Path) -> None:
    call = ctypes.CDLL(str(driver)).cuLaunchKernel
    others = [threading.Thread(target=lambda: [call() for _ in range(CALLS)]) for _ in range(3)]
    offset = exported(driver, ["cuLaunchKernel"])["cuLaunchKernel"]
    with counted(driver, offset, threading.get_native_id()) as count:
        before = count().calls
        for each in others:
            each.start()
        for _ in range(7):
            call()
        for each in others:
            each.join()
        assert 7 == count().calls - before


@pytest.mark.parametrize(("wrongly", "told"), [(0, "0 of 100"), (1, "1 of 100")])
def test_a_kernel_that_takes_a_counter_and_counts_wrongly_is_told(
    wrongly: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def counting_wrongly(path: Path, offset: int, thread: int) -> Iterator[Callable[[], CountedCalls]]:
        assert path.is_file()
        counts = iter([CountedCalls(0, 0.0), CountedCalls(wrongly, 0.0)])
        yield lambda: next(counts)

    monkeypatch.setattr(uprobes, "counted", counting_wrongly)
    with pytest.raises(ValueError, match=f"uprobes count wrongly here: {told} calls of labs"):
        check_counting.__wrapped__()
