"""The runtimes that there are: each file of this package that has a RUNTIME is one, and has its name."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from typing import TYPE_CHECKING

from primbench import runtimes
from primbench.errors import InvalidRequest
from primbench.runtimes.afar import arm_there
from primbench.runtimes.invocation import Invocation, check_python, module
from primbench.spec.arm import Arm, asked, settings_of, unknown_runtime
from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from primbench.runtimes.runtime import Runtime


@functools.cache
def known() -> dict[str, Runtime]:
    """Name -> runtime, in the order of their ranks."""
    names = [found.name for found in pkgutil.iter_modules(runtimes.__path__) if not found.ispkg]
    files = {name: importlib.import_module(f"{runtimes.__name__}.{name}") for name in names}
    found = {name: file.RUNTIME for name, file in files.items() if hasattr(file, "RUNTIME")}
    return dict(sorted(found.items(), key=lambda pair: (pair[1].rank, pair[0])))


def runtime_of(arm: Arm) -> Runtime:
    """Raises InvalidRequest where there is none of its name here, as in a file by somebody who has another one."""
    if arm.runtime not in known():
        raise unknown_runtime(f"arm {arm.name}", arm.runtime, [*known()])
    return known()[arm.runtime]


def runners() -> list[str]:
    """What can put together the containers of others, each once."""
    return list(dict.fromkeys(name for each in known().values() if each.parts for name in each.parts.runners))


def is_of_parts(arm: Arm) -> bool:
    """Whether one of these puts together the same, of the host's own files, with one thing more or less."""
    is_container = arm.runtime in runners() or (arm.runtime in known() and known()[arm.runtime].parts is not None)
    return arm.on_host_root and arm.oci_runtime is None and (is_container or arm.runtime == "host")


def settable(arm: Arm) -> frozenset[str]:
    """The fields that an arm of its runtime can set, on another machine those of its runtime there.

    Raises as runtime_of() does.
    """
    runtime = runtime_of(arm)
    if runtime.reached_by is None:
        return runtime.settings
    return runtime.reached_by | settable(arm_there(arm, runtime.reached_by))


def settable_by(runtime: str) -> frozenset[str]:
    """The fields that some arm of the runtime can set, whichever runtime there is on the machine that it reaches."""
    if runtime not in known():
        return frozenset()
    found = known()[runtime].settings
    there = known().values() if "runtime_there" in found else ()
    return found.union(*(each.settings for each in there if each.reached_by is None))


def check(arm: Arm) -> None:
    """Raises InvalidRequest where the runtime cannot meet what the arm asks for, whether it is installed or not.

    So it does where a variable is not set here that the arm is to have from here.
    """
    runtime = runtime_of(arm)
    if runtime.reached_by is not None:
        _check_there(arm, runtime.reached_by)
        return
    if arm.on_host_root and runtime.needs_image:
        raise InvalidRequest(f"{arm.runtime} starts images of its own only: add {runtime.needs_image}", arm=arm.name)
    _check_passed(arm)
    if "python" in runtime.mechanisms:
        check_python(arm)
    _check_values(arm, runtime.mechanisms)
    for field, key in settings_of(arm).items():
        if field not in runtime.settings:
            able = [name for name, other in known().items() if field in other.settings]
            raise InvalidRequest(
                f"{arm.runtime} has no {key} of its own; there is one in {', '.join(able)}", arm=arm.name
            )


def _check_there(arm: Arm, reached_by: Collection[str]) -> None:
    """Raises as check() does, of an arm as the machine that it is on has it."""
    _check_values(arm, runtime_of(arm).reaches)
    there = arm_there(arm, reached_by)
    if there.is_far:
        raise InvalidRequest(f"runtime={there.runtime}: name one that is on the machine itself", arm=there.name)
    for row, value in asked(there, "ranks") if there.runtime == "host" else ():
        if value != "host":
            raise InvalidRequest(f"{row.said(value)}: on other machines containers alone have one", arm=there.name)
    check(there)


def _check_values(arm: Arm, mechanisms: Iterable[str]) -> None:
    """Raises InvalidRequest for a value that none of the mechanisms has for a setting that one of them applies."""
    for mechanism in mechanisms:
        for row, value in asked(arm, mechanism):
            *others, last = row.values.get(mechanism, (value,))
            if value not in (*others, last):
                raise InvalidRequest(
                    f"{arm.runtime} has no {row.said(value)}: {', '.join(others)} or {last}", arm=arm.name
                )


def _check_passed(arm: Arm) -> None:
    for name in arm.passed:
        if name not in os.environ:
            raise InvalidRequest(
                f"{name} is not set here, and no file keeps its value: set it in the environment", arm=arm.name
            )


def launch(arm: Arm, folder: Path, *, gpus: bool, command: Sequence[str] | None = None) -> Invocation:
    """How its worker is started. folder: an empty one, kept until the worker has ended. gpus: whether it needs them.

    command: in place of the worker.

    Raises InvalidRequest where the runtime cannot meet what the arm asks for.
    """
    check(arm)
    for row in map(SETTINGS.__getitem__, () if gpus else settings_of(arm)):
        if row.of_gpu:
            words = row.said(getattr(arm, row.field))
            raise InvalidRequest(f"{words}: of a GPU, and nothing here uses one: --device cuda", arm=arm.name)
    return runtime_of(arm).launch(arm, folder, command or module(arm), gpus=gpus)
