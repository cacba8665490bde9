"""runc by itself, without an engine."""

from __future__ import annotations

import sys
from functools import partial

from primbench.runtimes import oci
from primbench.runtimes.runtime import Runtime

LEAVE_GROUPS = (sys.executable, "-P", "-m", "primbench.runtimes.oci_hook")
"""It always makes control groups, which the worker of an arm that is to have none leaves again."""

RUNTIME = Runtime(
    rank=70,
    mechanisms=oci.MECHANISMS,
    found=partial(oci.found, "runc"),
    launch=partial(oci.launch, hook=LEAVE_GROUPS),
)
