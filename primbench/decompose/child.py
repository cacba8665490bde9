"""The process in which a step is captured: ``python -P -m primbench.decompose.child ANSWER REQUEST``.

A user's script runs in it as ``python SCRIPT`` would have it, so that nothing that it does reaches the process that
asked. What was captured, or why nothing was, is in the file ANSWER as JSON.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import PrimbenchError
from primbench.registry import add_file

if TYPE_CHECKING:
    from primbench.decompose.written import CapturedStep


NO_CALLS = (
    "no operator of torch was seen in it: none is of what CUDA graphs replay, or what other threads and processes "
    "compute, where `with primbench.capture() as step:` sees it"
)
ENDING_S = 5.0  # in which threads may end by themselves


class CaptureRequest(msgspec.Struct, frozen=True):
    """Which step is to be captured: of a script, or of a model."""

    script: str = ""
    """Its path, or the name of a module; "" where it is a model's step."""
    arguments: list[str] = []
    """Of the script."""
    number: int = 1
    """Of the script's step, from 1."""
    is_module: bool = False
    """Whether ``script`` is the name of a module."""
    is_prefill: bool = False
    """Whether of a loop that generates the call that is given the prompt is asked for."""
    primitive: str = ""
    """The primitive of the model."""
    model: dict[str, Any] = {}
    """Its fields."""
    device: str | None = None
    """Of the model; None is the first GPU, else the CPU."""
    kernels: list[str] = []
    """Files of ``--kernels``."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a step that was to be captured: a suite, else ``error`` and ``exit_code``."""

    suite: str = ""
    """Its text."""
    generated: str = ""
    """Text of the file beside it, of kernels that torch.compile has generated."""
    step: str = ""
    calls: int = 0
    distinct: int = 0
    parts: int = 0
    left_out: int = 0
    compiled: int = 0
    cuda_graphs: int = 0
    is_all_told: bool = False
    """Whether steps after it have told what they tell."""
    died: str = ""
    """How its process ended where they had not; "" where they had."""
    error: str = ""
    exit_code: int = 0


def main() -> None:
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or its profiler says on stderr that it starts
    path, request = sys.argv[1], msgspec.json.decode(sys.argv[2], type=CaptureRequest)

    def answer(found: CapturedStep | PrimbenchError) -> None:
        with open(path, "wb") as file:
            file.write(msgspec.json.encode(_answered(found)))

    try:
        for each in request.kernels:
            add_file(each)
    except PrimbenchError as error:
        answer(error)
        return
    if request.script:
        from primbench.decompose.script import run

        kind = {"is_module": request.is_module, "is_prefill": request.is_prefill}
        run(request.script, request.arguments, request.number, answer, **kind)
    else:
        answer(_of_model(request))
    _end_threads()


def _end_threads() -> None:
    """Python waits for threads, some of which go on until a script that would have run on tells them to end, or for
    ever."""
    from primbench.decompose.leaving import end_now

    others = [each for each in threading.enumerate() if each is not threading.current_thread() and not each.daemon]
    until_s = time.monotonic() + ENDING_S
    for each in others:
        each.join(max(0.0, until_s - time.monotonic()))
    if any(each.is_alive() for each in others):
        end_now()


def _answered(found: CapturedStep | PrimbenchError) -> Answer:
    if isinstance(found, PrimbenchError):
        return Answer(error=str(found), exit_code=found.exit_code)
    from primbench.decompose.written import left_out, parts, suite_of, texts_of

    if not found.calls:
        return _answered(PrimbenchError(f"{found.of}: {NO_CALLS}"))
    return Answer(
        suite=suite_of(found),
        generated=texts_of(found),
        step=found.of,
        calls=len(found.calls),
        distinct=len(found.counted()),
        parts=parts(found),
        left_out=sum(each.calls for each in left_out(found)),
        compiled=found.compiled,
        cuda_graphs=found.cuda_graphs,
        is_all_told=found.is_all_told,
    )


def _of_model(request: CaptureRequest) -> CapturedStep | PrimbenchError:
    from primbench.decompose.model import captured
    from primbench.registry import build
    from primbench.timing.raised import one_line

    try:
        return captured(build(request.primitive, request.model), request.device)
    except PrimbenchError as error:
        return error
    except Exception as error:  # of a network of the user's own
        return PrimbenchError(f"model {request.model['network']}: {one_line(error)}")


if __name__ == "__main__":
    main()
