"""Calls of the operating system and of C: the same beside every framework."""

from __future__ import annotations

import ctypes
import functools
import os
import queue
import shutil
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.problem import described
from primbench.system import elf

if TYPE_CHECKING:
    from primbench.kernels.launch.problem import Launch
    from primbench.problem import Step


def host_step(problem: Launch) -> Step:
    """A call that is the same whatever the framework. Raises UnsupportedCase for what a GPU only has."""
    if problem.nodes or problem.parameter_bytes:
        raise UnsupportedCase("a CPU has no graphs and no kernels with parameters: leave out nodes, parameter_bytes")
    if problem.call not in _STEPS:
        raise UnsupportedCase(f"a CPU launches no kernels: ask for call=dispatch, {', '.join(_STEPS)}")
    return _STEPS[problem.call]()


def _getppid() -> Step:
    return os.getppid


def _ctypes() -> Step:
    """labs of the C library, the least that a foreign function can do."""
    return functools.partial(ctypes.CDLL(None).labs, 0)


def _thread_wake() -> Step:
    """There and back: a thread that waits is woken, and wakes the one that then waits for it."""
    import numpy as np

    output = np.empty(1, np.int32)
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()  # 1 asks for an answer, 0 ends the thread
    answered: queue.SimpleQueue[int] = queue.SimpleQueue()

    def answer() -> None:
        while asked.get():
            answered.put(0)

    threading.Thread(target=answer, daemon=True).start()

    def step() -> Any:
        asked.put(1)
        output[0] = answered.get()
        return output

    weakref.finalize(step, asked.put, 0)
    return step


def _process_start() -> Step:
    import numpy as np

    path = shutil.which("true")
    if path is None:
        raise UnsupportedCase("process_start needs the program true: install coreutils, or busybox")
    output = np.empty(1, np.int32)

    def step() -> Any:
        _, status = os.waitpid(os.posix_spawn(path, ["true"], os.environ), 0)
        if status:
            raise PrimbenchError(f"{path} ended with exit status {os.waitstatus_to_exitcode(status)}")
        output[0] = status
        return output

    return described(step, algorithm=_program(path))


def _program(path: str) -> str:
    """A program by its build, or without one by its size: every image brings its own."""
    file = os.path.realpath(path)
    size_bytes = os.path.getsize(file)
    try:
        return f"{path} of {size_bytes} B, build id {elf.build_id(Path(file))}"
    except (OSError, LookupError, ValueError):
        return f"{path} of {size_bytes} B"


_STEPS = {"getppid": _getppid, "ctypes": _ctypes, "thread_wake": _thread_wake, "process_start": _process_start}
