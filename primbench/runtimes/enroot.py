"""Enroot: a mount and a user namespace, and no limits of its own."""

from __future__ import annotations

from pathlib import Path

from primbench.arms import Arm
from primbench.runtimes.launch import Launch, answer, env_options, module, variables, version

SETTINGS = frozenset({"image", "variables"})


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer(["enroot", "version"])
    return reason, version(line)


def launch(arm: Arm, folder: Path, *, gpus: bool) -> Launch:
    """Its hook passes the GPUs that a variable names."""
    inside = ({"NVIDIA_VISIBLE_DEVICES": "all"} if gpus else {}) | variables(arm, folder)
    return Launch(worker=["enroot", "start", *env_options(arm, inside), str(arm.image), *module(arm)])
