"""Numba's simulator of a GPU, in a process of its own, as it takes the place of numba.cuda."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# In a function of the device numba.cuda is the simulator's until it returns. Where it is of another module than the
# kernel, the first thread that returned took that from the others, which were still inside.
UNTIL_THE_LAST_RETURNS = """
import contextlib as _contextlib, threading as _threading
from numba.cuda.simulator import kernel as _kernel

_swapped, _lock, _inside, _callers = _kernel.swapped_cuda_module, _threading.Lock(), {}, {}

@_contextlib.contextmanager
def _until_the_last_returns(function, simulated):
    module = id(function.__globals__)
    with _lock:
        if not _callers.get(module):
            _inside[module] = _swapped(function, simulated)
            _inside[module].__enter__()
        _callers[module] = _callers.get(module, 0) + 1
    try:
        yield
    finally:
        with _lock:
            _callers[module] -= 1
            if not _callers[module]:
                _inside[module].__exit__(None, None, None)

_kernel.swapped_cuda_module = _until_the_last_returns
"""
# Of two threads that ask for shared memory at the same time, each got its own, as the simulator looks whether there is
# some and makes it in two steps.
SHARED_BY_ALL = """
import sys as _sys
import numpy as _np
from numba.cuda.simulator import kernelapi as _kernelapi

def _shared_by_all(memory, shape, dtype):
    asking = _sys._getframe(1)
    found = _np.empty(shape, _kernelapi.numpy_support.as_dtype(dtype))
    return memory._allocations.setdefault((asking.f_code.co_filename, asking.f_lineno), found)

_kernelapi.FakeCUDAShared.array = _shared_by_all
"""


def printed(script: str) -> Any:
    """What it prints last, which is JSON; warnings are errors."""
    run = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", UNTIL_THE_LAST_RETURNS + SHARED_BY_ALL + script],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == run.returncode, run.stderr
    return json.loads(run.stdout.splitlines()[-1])
