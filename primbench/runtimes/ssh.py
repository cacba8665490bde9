"""Another machine, by OpenSSH's client: the primbench that is here runs there, and starts the worker as on a host."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from primbench.runtimes import afar, host
from primbench.runtimes.invocation import Invocation, client
from primbench.runtimes.runtime import RefusalWords, Runtime, met_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

REACHES = frozenset({"ssh"})
REACHED_BY = met_by(REACHES)
OPTIONS = {
    "BatchMode": "yes",  # nobody is asked for a password, or whether a key is the right one
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",  # a connection over which nothing comes any more ends after three of them
    "ServerAliveCountMax": "3",
    "ControlMaster": "no",  # others would end with the first connection; one that is there already is used
    "ClearAllForwardings": "yes",  # of ports, which a second connection finds taken
    "RemoteCommand": "none",
}


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """There the arm is a host, or a container of its: its supervisor sees to limits and folders, and leaves nothing."""
    order = afar.order_there(arm, REACHED_BY, command, gpus=gpus)
    shell = shlex.join(afar.first_command(arm))
    return Invocation(worker=[*connect(arm), shell], first=afar.parcel(order))


def connect(arm: Arm) -> list[str]:
    """The client, but for the command."""
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *_file(arm), "-T", *options, "--", str(arm.host)]


def _file(arm: Arm) -> list[str]:
    return [] if arm.ssh_config is None else ["-F", arm.ssh_config]


def _by_hand(arm: Arm, *options: str) -> str:
    return f"`{shlex.join(['ssh', *_file(arm), *options, str(arm.host)])}`"


def _refusals() -> tuple[RefusalWords, ...]:
    """In words of ssh; ``afar`` has those of what it starts."""
    return (
        RefusalWords(
            r"Permission denied \(|Too many authentication failures",
            lambda arm: (
                f"nobody is asked for a password: let a key in (ssh-copy-id, ssh-add), "
                f"so that {_by_hand(arm, '-o', 'BatchMode=yes')} works"
            ),
        ),
        RefusalWords(
            "Host key verification failed",
            lambda arm: f"its key is not known here, or another one is: {_by_hand(arm)} shows it and asks",
        ),
        RefusalWords(
            "Could not resolve hostname",
            lambda arm: f"there is no such name, and no such Host in {arm.ssh_config or 'the configuration of ssh'}",
        ),
        RefusalWords(r"exit status 255\b", lambda arm: f"see whether {_by_hand(arm)} works"),
    )


RUNTIME = Runtime(
    rank=80,
    mechanisms=host.RUNTIME.mechanisms,
    found=partial(client, "ssh", "-V"),
    launch=launch,
    refusals=(*_refusals(), *afar.REFUSALS),
    gpus="see nvidia-smi there",
    reaches=REACHES,
)
