"""What is started, and the call that starts it."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from primbench.backends import missing
from primbench.errors import UnsupportedCase
from primbench.kernels.startup._process import Process
from primbench.kernels.startup.problem import DONE, PACKAGES
from primbench.measurement import Samples
from primbench.problem import Step, described
from primbench.system.page_cache import drop, held_share
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.startup.problem import Startup

_NAMES = {"cublas": ("libcublas.so.13", "libcublas.so.12"), "cudnn": ("libcudnn.so.9",)}
COLD = 0.2  # share of the pages that may stay: other processes have them mapped, as this one the interpreter's


def step_of(problem: Startup) -> Step:
    """The step says by ``algorithm`` what was started, of which files.

    Raises UnsupportedCase where that is not installed, PrimbenchError where it fails.
    """
    import numpy as np

    output = np.zeros(1, np.int32)
    if not problem.is_process:
        return _thread(output)
    process = Process(problem.what, _library(problem.what))
    told, _ = process.run()
    cool, kept = _cooling(process) if problem.page_cache == "cold" else (None, "")
    own_s: list[float] = []
    is_timed = False

    def step() -> Any:
        _, took_s = process.run()
        if is_timed:
            own_s.append(took_s)
        output[0] = DONE
        return output

    def prepare() -> None:
        """Before a call that is timed: the last process ends outside of that."""
        nonlocal is_timed
        is_timed = True
        process.end()
        if cool:
            cool()

    def own(*_: object) -> Samples:
        return Samples(samples_s=own_s, calls_per_sample=1, taken_by="clock of the process", stopped="count")

    weakref.finalize(step, process.close)
    return described(step, algorithm=told + kept, host_buffers=[], before=prepare, others={"own_s": own})


def _thread(output: Any) -> Step:
    def ready() -> None:
        output[0] = DONE

    def step() -> Any:
        thread = threading.Thread(target=ready)
        thread.start()
        thread.join()
        return output

    return step


def _library(what: str) -> str | None:
    """The path of the library that is called, where it is one. Raises UnsupportedCase for what is not installed."""
    if what in PACKAGES and (reason := missing(what)):
        raise UnsupportedCase(f"startup what={what}: {reason}")
    if what not in _NAMES:
        return None
    from primbench.cuda.libraries import first_loadable, loaded_path, own_maps

    names = _NAMES[what]
    if first_loadable(what, names) is None:
        raise UnsupportedCase(f"startup what={what}: no {' or '.join(names)} was found: pip install nvidia-{what}")
    return loaded_path(what, own_maps())


def _cooling(process: Process) -> tuple[Callable[[], None], str]:
    """What makes the files cold that such a process opens, and in words how many of their pages stay.

    Raises UnsupportedCase where these are too many, or not to be seen.
    """
    paths = [path for path in process.opened() if os.path.getsize(path)]
    process.end()
    try:
        warm = held_share(paths)
        drop(paths)
        kept = held_share(paths) / warm
    except OSError as error:  # as of files of the system, which are root's
        unseen = f"what is in the page cache of {error.filename} cannot be seen: {error.strerror}"
        raise UnsupportedCase(f"{unseen}: ask for page_cache=warm") from None
    words = f"{format_percent(kept)} of what is read of {len(paths)} files stays in the page cache"
    if kept > COLD:
        raise UnsupportedCase(f"{words}, where processes have them mapped: ask for page_cache=warm")
    return functools.partial(drop, paths), f"; {words}"
