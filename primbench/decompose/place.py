"""Where a step was captured, and in what the place that its parts were measured in is another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.devices import Device
from primbench.environment import container
from primbench.environment.limits import Limits
from primbench.environment.machine import Machine
from primbench.environment.reading import group_of
from primbench.results.record import model_of
from primbench.results.step_timed import timed
from primbench.spec.captured import StepPlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.results.record import Record, Worker
    from primbench.results.step_timed import Timed
    from primbench.spec.captured import Captured


def here() -> StepPlace:
    """Of this process, once its step has run."""
    root = Path("/")
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch is not None and torch.cuda.is_initialized() else None
    return _place(group_of(Machine, root), group_of(Limits, root), container.detect(root).name, gpu)


def as_it_ran(captured: Captured | None, workers: Iterable[Worker], records: Iterable[Record]) -> Timed | None:
    """The step as a whole, and in what the place of its parts is another. records: of the parts."""
    used = {record.worker for record in records}
    words = [each for worker in workers if captured and worker.worker in used for each in _elsewhere(captured, worker)]
    return timed(captured, list(dict.fromkeys(words)))


def _elsewhere(captured: Captured, worker: Worker) -> list[str]:
    """What is known to differ, in words, of where a step was captured and where a worker was."""
    environment = worker.environment
    runtime = environment.confinement.runtime
    gpu = model_of(worker) if Device.parse(worker.device).is_gpu else None
    now = _place(environment.machine, environment.limits, runtime.name if runtime else None, gpu)
    values = [(name, value, asdict(now)[name]) for name, value in asdict(captured.place).items()]
    values.append(("torch", captured.torch or None, worker.versions.get("torch")))
    return [f"{name} {was} there, {now} here" for name, was, now in values if None not in (was, now) and was != now]


def _place(machine: Machine, limits: Limits, runtime: str | None, gpu: str | None) -> StepPlace:
    return StepPlace(
        boot_id=machine.boot_id,
        cpu_model=machine.cpu_model,
        cpus=len(limits.cpus_allowed) if limits.cpus_allowed else None,
        cpu_quota=limits.cpu_quota,
        runtime=runtime,
        gpu=gpu,
    )
