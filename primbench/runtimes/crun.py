"""crun by itself, without an engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from primbench.runtimes import engine, oci
from primbench.runtimes.runtime import Runtime
from primbench.system.cgroups import cgroup_version


def found(root: Path = Path("/")) -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, version = oci.found("crun")
    if reason is None and cgroup_version(root) == "hybrid":
        reason = engine.NEEDS_RUNC
    return reason, version


RUNTIME = Runtime(
    rank=60,
    mechanisms=oci.MECHANISMS,
    found=found,
    launch=partial(oci.launch, leaving=["--cgroup-manager=disabled"]),  # by which it makes no control groups
    refusals=(engine.hybrid(),),
)
