"""The machine itself: no container, and limits by a control group."""

from __future__ import annotations

from pathlib import Path

from primbench.arms import Arm
from primbench.runtimes.launch import Launch, module, variables

SETTINGS = frozenset({"cpus", "cpuset", "mems", "memory_bytes", "variables"})


def found() -> tuple[str | None, str]:
    """As the runtimes have it; the machine itself is always there."""
    import platform

    return None, platform.release()


def launch(arm: Arm, folder: Path, *, gpus: bool) -> Launch:
    return Launch(worker=module(arm), environment=variables(arm, folder))
