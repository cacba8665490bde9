"""What is sent to another machine, however that is reached: the primbench that is here, and what is to be started."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import fields, replace

import primbench
from primbench.runtimes import arrival
from primbench.runtimes.invocation import OLDEST_PYTHON
from primbench.runtimes.order import Order
from primbench.runtimes.runtime import RefusalWords
from primbench.spec.arm import Arm
from primbench.spec.variables import Reason, Sent, for_any_machine, is_for_libraries, of_this_machine

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# One line without a backslash or an exclamation mark, which some login shells would read even between quotes. The
# program it reads ends with a zero byte; not a byte more is read.
FIRST = (
    'import os,sys;sys.version_info<({0},{1})and sys.exit("Python %d.%d is older than {0}.{1}"%sys.version_info[:2]);'
    "sys.path[:]=filter(None,sys.path);"  # without the current folder
    'exec(b"".join(iter(lambda:os.read(0,1)or bytes(1),bytes(1))))'
).format(*OLDEST_PYTHON)


def arm_there(arm: Arm, reached_by: Collection[str]) -> Arm:
    """The arm as the machine there has it to start. reached_by: fields that are seen to from here.

    An image is one of the runtime there, where one is named.
    """
    from_here = {*reached_by} - ({"image"} if arm.runtime_there else set())
    unset = {field.name: field.default for field in fields(Arm) if field.name in from_here}
    return replace(arm, runtime=arm.runtime_there or "host", **{**unset, "runtime_there": None})


def python(arm: Arm) -> str:
    """As the machine there finds it."""
    return arm.python or "python3"


def first_command(arm: Arm) -> list[str]:
    """What is run there, and reads a parcel."""
    return [python(arm), "-c", FIRST]


def order_there(arm: Arm, reached_by: Collection[str], command: Sequence[str], *, gpus: bool) -> Order:
    """What the supervisor there is to start."""
    return Order(arm=arm_there(arm, reached_by), gpus=gpus, command=[*command], is_from_afar=True)


def parcel(order: Order, environ: Mapping[str, str] = os.environ) -> bytes:
    """What is sent: the program that begins there, called with the order and variables, and all of primbench's code.

    The values of variables travel here, and so stand in no list of processes. Those of this machine are for the case
    that it is reached by a way around.
    """
    of_libraries, passed = _of_libraries(environ), {name: environ[name] for name in order.arm.passed}
    variables = for_any_machine(of_libraries) | passed
    of_machine = {name: of_libraries[name] for name, reason in _reasons(of_libraries).items() if reason != "path"}
    code = arrival.code_in(os.path.dirname(primbench.__file__))
    packed = _packed(code)
    given = (variables, {boot: of_machine} if (boot := arrival.boot()) else {})
    asked = (msgspec.json.encode(order).decode(), *given, arrival.digest_of(code), len(packed))
    program = f"{Path(arrival.__file__).read_text()}\n\n{arrival.become_supervisor.__name__}{asked!r}\n"
    return program.encode() + b"\0" + packed


def sent(arm: Arm, boot_there: str | None, environ: Mapping[str, str] = os.environ) -> Sent:
    """What a worker of an arm on another machine was given of the variables here, and what not.

    boot_there: the ``boot_id`` that it found, by which it may have been this machine after all.
    """
    is_here = boot_there is not None and boot_there == arrival.boot()
    own = {name: value for name, value in _of_libraries(environ).items() if name not in (*arm.variables, *arm.passed)}
    left = {name: reason for name, reason in _reasons(own).items() if reason == "path" or not is_here}
    return Sent(carried=sorted({*own} - {*left} | {*for_any_machine(own), *arm.passed}), left=left)


def _reasons(variables: Mapping[str, str]) -> dict[str, Reason]:
    """Of those that mean something on this machine alone."""
    found = {name: of_this_machine(name, value) for name, value in sorted(variables.items())}
    return {name: reason for name, reason in found.items() if reason is not None}


def _of_libraries(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if is_for_libraries(name)}


def _packed(code: Mapping[str, bytes]) -> bytes:
    import zipfile

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, held in code.items():
            file.writestr(f"primbench/{name}", held)
    return archive.getvalue()


def _lacking(arm: Arm) -> str | None:
    if arm.image is None:
        return f"{python(arm)} there lacks it: install what primbench needs, or name another one by python="
    if arm.runtime_there is None:  # who started the image has Python in nothing else
        return None
    return f"{python(arm)} there lacks it, or image {arm.image} does: `primbench image` builds one that does not"


REFUSALS = (
    RefusalWords("spoke out of turn", lambda arm: "a shell there, as by ~/.bashrc, may print nothing to a program"),
    RefusalWords(
        r"exit status 12[67]\b",
        lambda arm: f"there is no {python(arm)}: name one by python=, as python=/opt/venv/bin/python",
    ),
    RefusalWords(r"is older than [0-9]", lambda arm: f"that is {python(arm)} there: name a newer one by python="),
    RefusalWords(r"No module named '(?!primbench)", _lacking),
)
"""In words of a shell there, and of Python."""
