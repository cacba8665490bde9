"""gVisor by itself, without an engine: a program that answers system calls in the kernel's place.

Its command line is that of gVisor's documentation (gvisor.dev/docs/user_guide/quick_start/oci, runsc/config/flags.go).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from primbench.runtimes import oci
from primbench.runtimes.invocation import options
from primbench.runtimes.runtime import RefusalWords, Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.runtimes.invocation import Invocation
    from primbench.spec.arm import Arm

GPUS = ("--nvproxy",)
"""By which calls of the driver are passed on; else its device files answer nothing."""


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """As oci.launch() does, and raises.

    The bundle's namespace has no network but the loopback. Told so, it does not look there for more, which gVisor of
    2022 takes for the host's on kernels of today, and refuses.
    """
    network = options(arm, arm.runtime) or ["--network=none"]
    always = (*network, *(GPUS if gpus else ()))
    return oci.launch(arm, folder, command, gpus=gpus, always=always, leaving=["--ignore-cgroups"])


RUNTIME = Runtime(
    rank=74,
    mechanisms=oci.MECHANISMS | {"runsc"},
    found=partial(oci.found, "runsc"),
    launch=launch,
    refusals=(
        RefusalWords(
            r"unsupported driver version|nvproxy: ",
            lambda arm: "gVisor knows some versions of NVIDIA's driver alone: `runsc nvproxy list-supported-drivers`",
        ),
    ),
    gpus="see whether `runsc nvproxy list-supported-drivers` has this machine's driver",
    is_sandbox=True,
)
