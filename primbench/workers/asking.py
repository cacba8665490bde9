"""Which backend and device a worker would take: asked of one, as this process imports no framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from primbench import backends as backend_files
from primbench.devices import CUDA, nth_gpu
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Ready, Start

if TYPE_CHECKING:
    from primbench.spec.arm import Arm

FIRST_GPU = str(nth_gpu(0))
Ask = Callable[[tuple[str, ...], str | None], Ready]


def ask_a_worker(candidates: tuple[str, ...], device: str | None, arm: Arm | None = None) -> Ready:
    """What a worker finds: the backend and device it would choose among the candidates, and its environment.

    arm: where it runs; None is here. Raises BackendUnavailable with the reasons where it finds none.
    """
    only = candidates[0] if len(candidates) == 1 else None
    worker = WorkerProcess(Start(candidates=list(candidates), backend=only, device=device), arm=arm)
    ready = worker.ready
    worker.end()
    return ready


def asking_once(ask: Ask, *, is_here: bool = True) -> Ask:
    """Asks no worker what is known by what another one has told, each of which takes seconds to import a framework.

    is_here: they choose among the backends that are installed here, so that who may take the one that was found as its
    best would find it again.
    """
    told: list[Ready] = []

    @functools.cache
    def asked(having: tuple[str, ...], device: str | None) -> Ready:
        best = backend_files.candidates(having, CUDA)[:1] if is_here else []
        for each in told:
            if [each.backend] == best and each.device == (device or FIRST_GPU):
                return each
        told.append(ask(having, device))
        return told[-1]

    return asked
