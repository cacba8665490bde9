"""Where workers run besides here: one file a runtime, each of which turns an arm into programs and arguments.

A runtime file has SETTINGS, the fields of an arm that it can meet; ``found()``, why it cannot be used or None, and
its version; and ``launch(arm, folder, command, gpus=...)``, with a folder of its own that is removed afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from primbench.errors import InvalidRequest
from primbench.runtimes import apptainer, charliecloud, docker, enroot, host, oci, podman
from primbench.runtimes.launch import Launch, module
from primbench.spec.arm import Arm, settings_of


class _Launching(Protocol):
    def __call__(self, arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Launch: ...


class Runtime(NamedTuple):
    settings: frozenset[str]
    found: Callable[[], tuple[str | None, str]]
    launch: _Launching
    starts_host_root: bool = True


RUNTIMES = {
    "host": Runtime(host.SETTINGS, host.found, host.launch),
    "docker": Runtime(docker.SETTINGS, docker.found, docker.launch),
    "podman": Runtime(podman.SETTINGS, podman.found, podman.launch),
    "apptainer": Runtime(apptainer.SETTINGS, apptainer.found, apptainer.launch),
    "charliecloud": Runtime(charliecloud.SETTINGS, charliecloud.found, charliecloud.launch),
    "enroot": Runtime(enroot.SETTINGS, enroot.found, enroot.launch, starts_host_root=False),
    "crun": Runtime(oci.SETTINGS, partial(oci.found, "crun"), oci.launch),
    "runc": Runtime(oci.SETTINGS, partial(oci.found, "runc"), oci.launch),
}


def check(arm: Arm) -> None:
    """Raises InvalidRequest where the runtime cannot meet what the arm asks for, whether it is installed or not.

    So it does where a variable is not set here that the arm is to have from here.
    """
    if arm.on_host_root and not RUNTIMES[arm.runtime].starts_host_root:
        raise InvalidRequest(
            f"arm {arm.name}: {arm.runtime} starts images of its own only: add image=NAME, as `{arm.runtime} list` "
            "has it, or image=FILE.sqsh"
        )
    for name in arm.passed:
        if name not in os.environ:
            raise InvalidRequest(
                f"arm {arm.name}: {name} is not set here, and no file keeps its value: set it in the environment"
            )
    for field, key in settings_of(arm).items():
        if field not in RUNTIMES[arm.runtime].settings:
            able = [name for name, runtime in RUNTIMES.items() if field in runtime.settings]
            raise InvalidRequest(
                f"arm {arm.name}: {arm.runtime} has no {key} of its own; there is one in {', '.join(able)}"
            )


def launch(arm: Arm, folder: Path, *, gpus: bool, command: Sequence[str] | None = None) -> Launch:
    """How its worker is started. folder: an empty one, kept until the worker has ended. gpus: whether it needs them.

    command: in place of the worker.

    Raises InvalidRequest where the runtime cannot meet what the arm asks for.
    """
    check(arm)
    return RUNTIMES[arm.runtime].launch(arm, folder, command or module(arm), gpus=gpus)
