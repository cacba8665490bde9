"""Another machine, by OpenSSH's client: the primbench that is here runs there, and starts the worker as on a host."""

from __future__ import annotations

import io
import os
import shlex
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

import primbench
from primbench.runtimes import arrival, host
from primbench.runtimes.invocation import Invocation, answer, version, without_paths
from primbench.runtimes.order import Order
from primbench.runtimes.runtime import Refusal, Runtime
from primbench.spec.variables import is_for_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.spec.arm import Arm

OLDEST_PYTHON = (3, 11)
OPTIONS = {
    "BatchMode": "yes",  # nobody is asked for a password, or whether a key is the right one
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",  # a connection over which nothing comes any more ends after three of them
    "ServerAliveCountMax": "3",
    "ControlMaster": "no",  # others would end with the first connection; one that is there already is used
    "ClearAllForwardings": "yes",  # of ports, which a second connection finds taken
    "RemoteCommand": "none",
}
# One line without a backslash or an exclamation mark, which some login shells would read even between quotes. The
# program it reads ends with a zero byte; not a byte more is read.
FIRST = (
    'import os,sys;sys.version_info<({0},{1})and sys.exit("Python %d.%d is older than {0}.{1}"%sys.version_info[:2]);'
    "sys.path[:]=filter(None,sys.path);"  # without the current folder
    'exec(b"".join(iter(lambda:os.read(0,1)or bytes(1),bytes(1))))'
).format(*OLDEST_PYTHON)


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and the version of the client here."""
    reason, line = answer(["ssh", "-V"])
    return reason, version(line)


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """There the arm is a host: its supervisor sees to limits and folders, and leaves nothing behind."""
    there = replace(arm, runtime="host", host=None, python=None, ssh_config=None)
    order = Order(arm=there, gpus=gpus, command=[*command], is_from_afar=True)
    shell = shlex.join([python(arm), "-c", FIRST])
    return Invocation(worker=[*connect(arm), shell], first=parcel(order))


def python(arm: Arm) -> str:
    """As the machine there finds it."""
    return arm.python or "python3"


def connect(arm: Arm) -> list[str]:
    """The client, but for the command."""
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *_file(arm), "-T", *options, "--", str(arm.host)]


def _file(arm: Arm) -> list[str]:
    return [] if arm.ssh_config is None else ["-F", arm.ssh_config]


def parcel(order: Order, environ: Mapping[str, str] = os.environ) -> bytes:
    """What is sent: the program that begins there, called with the order and variables, and all of primbench's code.

    The values of variables travel here, and so stand in no list of processes.
    """
    of_libraries = {name: value for name, value in environ.items() if is_for_libraries(name)}
    variables = without_paths(of_libraries) | {name: environ[name] for name in order.arm.passed}
    code = arrival.code_in(os.path.dirname(primbench.__file__))
    packed = _packed(code)
    asked = (msgspec.json.encode(order).decode(), variables, arrival.digest_of(code), len(packed))
    program = f"{Path(arrival.__file__).read_text()}\n\n{arrival.become_supervisor.__name__}{asked!r}\n"
    return program.encode() + b"\0" + packed


def _packed(code: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, held in code.items():
            file.writestr(f"primbench/{name}", held)
    return archive.getvalue()


def _by_hand(arm: Arm, *options: str) -> str:
    return f"`{shlex.join(['ssh', *_file(arm), *options, str(arm.host)])}`"


def _refusals() -> tuple[Refusal, ...]:
    """In words of ssh, of a shell there, and of Python."""
    return (
        Refusal(
            r"Permission denied \(|Too many authentication failures",
            lambda arm: (
                f"nobody is asked for a password: let a key in (ssh-copy-id, ssh-add), "
                f"so that {_by_hand(arm, '-o', 'BatchMode=yes')} works"
            ),
        ),
        Refusal(
            "Host key verification failed",
            lambda arm: f"its key is not known here, or another one is: {_by_hand(arm)} shows it and asks",
        ),
        Refusal(
            "Could not resolve hostname",
            lambda arm: f"there is no such name, and no such Host in {arm.ssh_config or 'the configuration of ssh'}",
        ),
        Refusal("spoke out of turn", lambda arm: "a shell there, as by ~/.bashrc, may print nothing to a program"),
        Refusal(r"exit status 255\b", lambda arm: f"see whether {_by_hand(arm)} works"),
        Refusal(
            r"exit status 12[67]\b",
            lambda arm: f"there is no {python(arm)}: name one by python=, as python=/opt/venv/bin/python",
        ),
        Refusal(r"is older than [0-9]", lambda arm: f"that is {python(arm)} there: name a newer one by python="),
        Refusal(
            r"No module named '(?!primbench)",
            lambda arm: f"{python(arm)} there lacks it: install what primbench needs, or name another one by python=",
        ),
    )


RUNTIME = Runtime(
    rank=80,
    settings=host.RUNTIME.settings | {"host", "python", "ssh_config"},
    found=found,
    launch=launch,
    refusals=_refusals(),
    gpus="see nvidia-smi there",
)
