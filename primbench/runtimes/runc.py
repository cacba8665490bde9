"""runc by itself, without an engine."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from primbench.runtimes import oci
from primbench.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.runtimes.invocation import Invocation
    from primbench.spec.arm import Arm

LEAVE_GROUPS = (sys.executable, "-P", "-m", "primbench.runtimes.oci_hook")


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """It always makes control groups, which the worker of an arm that is to have none leaves again."""
    return oci.launch(arm, folder, command, gpus=gpus, hook=LEAVE_GROUPS)


RUNTIME = Runtime(rank=70, mechanisms=oci.MECHANISMS, found=partial(oci.found, "runc"), launch=launch)
