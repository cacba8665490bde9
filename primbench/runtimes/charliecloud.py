"""Charliecloud: a mount and a user namespace, and no limits of its own."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path

from primbench.runtimes.hostroot import bound_folders, caches, make_skeleton
from primbench.runtimes.launch import PATH, Launch, answer, variables, version
from primbench.spec.arm import Arm

SETTINGS = frozenset({"image", "variables"})


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, line = answer(["ch-run", "--version"], {"USER": getpass.getuser(), **os.environ})
    return reason, version(line)


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Launch:
    """The host's devices are there as they are. What is in ch-run's environment is in the worker's.

    What is bound may be written to, as by the user.
    """
    image, chosen = str(arm.image), list[str]()
    if arm.on_host_root:
        image = str(make_skeleton(folder))
        chosen = [f"--bind={bound}" for bound in (*bound_folders(), caches(folder))]
    elif "CH_IMAGE_STORAGE" in os.environ:
        chosen = [f"--storage={os.environ['CH_IMAGE_STORAGE']}"]  # where an image's name is looked up
    environment = {"PATH": PATH, "USER": getpass.getuser()} | variables(arm, folder)
    return Launch(worker=["ch-run", "--cd=/", "--no-passwd", *chosen, image, "--", *command], environment=environment)
