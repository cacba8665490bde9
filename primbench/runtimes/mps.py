"""A multi-process service of an arm's own: `python -P -m primbench.runtimes.mps start|quit`.

NVIDIA's daemon begins before the worker, with folders of its own, by which that worker alone finds it, and is told to
quit after it. Its share is an upper bound on multiprocessors: NVIDIA, Multi-Process Service, "Volta MPS Execution
Resource Provisioning".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.spec.arm import Arm

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS, SHARE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
QUIT = "quit -t 5\n"  # seconds for which a client that is left may go on
STARTS_WITHIN_S, QUITS_WITHIN_S = 30.0, 20.0


def service(arm: Arm, folder: Path) -> dict[str, str]:
    """Variables by which the daemon and the worker meet; none where none is asked for. folder: the launch's.

    Raises InvalidRequest where there is no daemon.
    """
    share = arm.mps_share
    if share is None:
        return {}
    if shutil.which(CONTROL) is None:
        raise InvalidRequest(f"mps={share}%: {CONTROL} is not installed: it comes with NVIDIA's driver", arm=arm.name)
    found = {PIPES: folder / "mps", LOGS: folder / "mps-log"}
    for each in found.values():
        each.mkdir()
    return {**{name: str(path) for name, path in found.items()}, SHARE: str(share)}


def command(word: str) -> list[str]:
    return [sys.executable, "-P", "-m", __name__, word]


def start() -> None:
    """A daemon keeps its standard streams open, so that what it says goes to a file."""
    log = Path(os.environ[LOGS], "start")
    with log.open("wb") as said:
        done = subprocess.run(
            [CONTROL, "-d"], stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=STARTS_WITHIN_S, check=False
        )
    if done.returncode:
        lines = log.read_text(errors="replace").split("\n")
        sys.exit(next(filter(None, reversed(lines)), f"{CONTROL} ended with exit status {done.returncode}"))


def end() -> None:
    """One that never began has nothing to quit."""
    subprocess.run(
        [CONTROL], input=QUIT, text=True, timeout=QUITS_WITHIN_S, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


if __name__ == "__main__":
    {"start": start, "quit": end}[sys.argv[1]]()
