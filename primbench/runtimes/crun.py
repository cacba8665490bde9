"""crun by itself, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from primbench.runtimes import engine, oci
from primbench.runtimes.runtime import Runtime
from primbench.system.cgroups import cgroup_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.runtimes.invocation import Invocation
    from primbench.spec.arm import Arm


def found(root: Path = Path("/")) -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, version = oci.found("crun")
    if reason is None and cgroup_version(root) == "hybrid":
        reason = engine.NEEDS_RUNC
    return reason, version


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """As oci.launch(); to leave no control groups, crun is told to make none."""
    return oci.launch(arm, folder, command, gpus=gpus, leaving=["--cgroup-manager=disabled"])


RUNTIME = Runtime(rank=60, mechanisms=oci.MECHANISMS, found=found, launch=launch, refusals=(engine.hybrid(),))
