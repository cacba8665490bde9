"""Enroot: a mount and a user namespace, and no limits of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.runtimes import inherited
from primbench.runtimes.invocation import Invocation, answer, env_options, variables, version
from primbench.runtimes.runtime import Runtime, Signs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

SCRIPT = '#!/bin/sh\nexec "$@"\n'
"""Of a container: a shell is given it, and the command as its arguments."""


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer(["enroot", "version"])
    return reason, version(line)


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """Its hook passes the GPUs that a variable names.

    An image's own /etc/rc would hand the command to the image's entry point: a script of ours takes its place.
    """
    script = folder / "rc"
    script.write_text(SCRIPT)
    inside = ({"NVIDIA_VISIBLE_DEVICES": "all"} if gpus else {}) | variables(arm, folder)
    options = env_options(arm, inside)
    return Invocation(worker=["enroot", "start", "--rc", str(script), *options, str(arm.image), *command])


RUNTIME = Runtime(
    rank=50,
    settings=inherited.SETTINGS | {"image", "variables"},
    found=found,
    launch=launch,
    signs=Signs(mount="/.lock"),
    gpus="its hook takes them from this machine by nvidia-container-cli: install that",
    needs_image="image=NAME, as `enroot list` has it, or image=FILE.sqsh",
)
