"""Enroot: a mount and a user namespace, and no limits of its own."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.runtimes.invocation import Invocation, client, env_options, variables
from primbench.runtimes.runtime import RefusalWords, Runtime, Signs, no_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

SCRIPT = '#!/bin/sh\nexec "$@"\n'
"""Of a container: a shell is given it, and the command as its arguments."""

NO_LOGIN = {"ENROOT_LOGIN_SHELL": "no"}
"""Else that shell reads the image's /etc/profile first, which may set another PATH than the image's, and print."""

NO_SHELL = RefusalWords(
    r"enroot-switchroot: failed to execute",
    lambda arm: f"enroot starts everything by a shell, and image {arm.image} has none",
)
_QUOTED = re.compile(r"""["'].*["']\s*""")


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """Its hook passes the GPUs that a variable names.

    An image's own /etc/rc would hand the command to the image's entry point: a script of ours takes its place.
    """
    script = folder / "rc"
    script.write_text(SCRIPT)
    inside = ({"NVIDIA_VISIBLE_DEVICES": "all"} if gpus else {}) | variables(arm, folder)
    refuse_what_gets_lost(arm, inside)
    worker = ["enroot", "start", "--rc", str(script), *env_options(arm, inside), str(arm.image), *command]
    return Invocation(worker=worker, environment={**os.environ, **NO_LOGIN})


def refuse_what_gets_lost(arm: Arm, inside: Mapping[str, str]) -> None:
    """It writes the variables to a file, one a line, and edits that. Raises InvalidRequest."""
    for name, value in inside.items():
        if name.startswith("ENROOT_"):
            raise InvalidRequest(
                f"variable {name}: enroot passes on none of its own: to set what enroot does, "
                f"`export {name}={value}` before",
                arm=arm.name,
            )
        if "\n" in value or _QUOTED.fullmatch(value):
            what = "a line break in its value" if "\n" in value else "quotes around its value"
            raise InvalidRequest(f"variable {name}: enroot does not pass on {what}: leave it out", arm=arm.name)


RUNTIME = Runtime(
    rank=50,
    mechanisms=frozenset({"image", "surroundings", "process"}),
    found=partial(client, "enroot", "version"),
    launch=launch,
    signs=Signs(mount="/.lock"),
    refusals=(
        no_image(
            r"\[ERROR\] (Invalid argument: |No such file or directory: )/",
            "name a squashfs file, or what `enroot list` lists; `enroot import` fetches one",
        ),
        RefusalWords(
            r"\[ERROR\] (Failed to mount: |Command not found: (squashfuse|fuse-overlayfs))",
            lambda arm: (
                f"`enroot create {arm.image}` makes a container of it, which starts without FUSE and squashfuse, "
                "or says what is wrong with the file"
            ),
        ),
        NO_SHELL,
    ),
    gpus="its hook takes them from this machine by nvidia-container-cli: install that",
    needs_image="image=NAME, as `enroot list` has it, or image=FILE.sqsh",
)
