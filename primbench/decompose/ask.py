"""Have a step captured in a process of its own, which alone imports torch."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from primbench.distributed.death import how_it_ended
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.runtimes.leftovers import launch_folder

if TYPE_CHECKING:
    from primbench.decompose.child import Answer, CaptureRequest

ENDING_S = 10.0  # in which a script that is told to end may end what it has started


def ask(request: CaptureRequest) -> Answer:
    """Its answer, with how its process ended where it did before all was told. Raises InvalidRequest and PrimbenchError
    where nothing was captured, in one line why.
    """
    from primbench.decompose.child import Answer

    with launch_folder() as folder:
        path = str(folder / "answer.json")
        command = [sys.executable, "-P", "-m", "primbench.decompose.child", path, msgspec.json.encode(request).decode()]
        with subprocess.Popen(command, stdin=None) as child:
            try:
                status = child.wait()
            except BaseException:
                _end(child)
                raise
        try:
            with open(path, "rb") as file:
                answer = msgspec.json.decode(file.read(), type=Answer)
        except (FileNotFoundError, msgspec.DecodeError):
            what = request.script or "the model"
            before = "before a step was captured, its process"
            raise PrimbenchError(f"{what}: {before} {_how(status)}") from None
    if answer.error:
        raise (InvalidRequest if answer.exit_code == InvalidRequest.exit_code else PrimbenchError)(answer.error)
    return replace(answer, died=_how(status)) if request.script and not answer.is_all_told else answer


def _how(status: int) -> str:
    return how_it_ended(status) if status else "ended by itself, as by os._exit() or exec"


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
