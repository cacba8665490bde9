"""Whether CUDA itself starts here: it needs other files than NVML, which may list GPUs that CUDA cannot open."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from ctypes import c_uint
from typing import TYPE_CHECKING

from primbench.gpu.nvidia.nvml import visible_devices

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STARTS = "CUDA_SUCCESS"
_NEEDED = re.compile(r"/dev/nvidia(-uvm|ctl|[0-9]+)")
_ANSWER_WITHIN_S = 60.0  # without persistence mode each GPU takes 1 to 3 s
_ASK = "from primbench.gpu.nvidia import cuda_start; print(cuda_start.start())"


def answer(root: Path) -> str:
    """What cuInit() gives, by the driver's name of it. It makes no context.

    It is asked in a process of its own, unless this one has the driver by now. Raises LookupError where NVML lists no
    GPU, or there is no driver's library; PlacementError where NVML cannot be used.
    """
    if str(root) != "/":
        raise LookupError("CUDA can be started in the place itself alone")
    if not visible_devices():
        raise LookupError("NVML lists no GPU")
    if "/libcuda.so" in (root / "proc/self/maps").read_text():
        return start()
    return started_apart()


def start() -> str:
    """In this process. Raises BackendUnavailable without a driver's library."""
    from primbench.gpu.nvidia import driver  # which completion of a command line has no use for

    try:
        driver.call("cuInit", c_uint(0))
    except driver.CudaError as error:
        return f"{error}".removeprefix("cuInit: ")
    return STARTS


def started_apart(within_s: float = _ANSWER_WITHIN_S) -> str:
    """In a process of its own, which may end by it, or never answer. Raises LookupError without a driver's library."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ASK],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer in {within_s:g} s"
    if done.returncode < 0:
        return f"its process ended by signal {-done.returncode}"
    if done.returncode:
        raise LookupError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    return done.stdout.strip()


def refused_files(root: Path, files: Iterable[str]) -> dict[str, str]:
    """Of device files those that CUDA opens and may not, each with the error, as "EPERM" by a control group."""
    answers = {path: _opened(root / path.lstrip("/")) for path in files if _NEEDED.fullmatch(path)}
    return {path: answer for path, answer in answers.items() if answer}


def _opened(path: Path) -> str:
    """The name of the error, if any. None of these files does anything before it is asked to."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, f"{error.errno}")
    return ""
